//go:build linux

package chaos

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what has to come. It is long because it
// only ends a test that has failed.
const patience = 3 * time.Minute

// process is one relay: a configuration file, a log, and while it runs a
// process. Its methods belong to the test's goroutine.
type process struct {
	t      testing.TB
	name   string
	config string
	log    string
	cmd    *exec.Cmd // nil while it does not run
	ended  chan struct{}
	err    error // how it ended, once ended is closed
	from   int64 // where this run's lines begin in the log
}

// newProcess writes the configuration and starts nothing.
func newProcess(t testing.TB, dir, name, config string) *process {
	t.Helper()
	p := &process{t: t, name: name, config: filepath.Join(dir, name+".yaml"), log: filepath.Join(dir, name+".log")}
	if err := os.WriteFile(p.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.running() {
			p.kill()
		}
	})
	return p
}

func (p *process) start() {
	p.t.Helper()
	file, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	if p.from, err = log.Seek(0, io.SeekEnd); err != nil {
		p.t.Fatal(err)
	}
	p.cmd = exec.Command(file, "relay", "--config", p.config)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A test binary that is killed must not leave relays behind.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.name, err)
	}
	cmd, ended := p.cmd, make(chan struct{})
	p.ended = ended
	go func() {
		p.err = cmd.Wait()
		close(ended)
	}()
}

func (p *process) running() bool { return p.cmd != nil }

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatalf("%v to %s: %v\n%s", s, p.name, err, p.tail(30))
	}
}

// kill ends it as a crash does, also while it is paused.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	_ = p.await() // that it was killed is known
}

// stop ends it in good order and returns how long that took. An exit code other
// than 0 fails the test.
func (p *process) stop() time.Duration {
	p.t.Helper()
	// Before it has said so, it may not have asked for signals yet.
	p.awaitLine("relay started")
	began := time.Now()
	p.signal(syscall.SIGTERM)
	if err := p.await(); err != nil {
		p.t.Errorf("%s after SIGTERM: %v\n%s", p.name, err, p.tail(30))
	}
	return time.Since(began)
}

func (p *process) await() error {
	p.t.Helper()
	select {
	case <-p.ended:
		p.cmd = nil
		return p.err
	case <-time.After(patience):
		p.t.Fatalf("%s does not end\n%s", p.name, p.tail(50))
		return nil
	}
}

// awaitLine returns when this run's log has a line with a text.
func (p *process) awaitLine(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(p.log)
		if err != nil {
			p.t.Fatal(err)
		}
		if strings.Contains(string(b[p.from:]), text) {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s never says %q\n%s", p.name, text, p.tail(30))
		}
	}
}

// tail is the end of its log.
func (p *process) tail(lines int) string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimSpace(string(b)), "\n")
	return fmt.Sprintf("-- %s, the last of %d lines --\n%s", p.name, len(all), strings.Join(all[max(0, len(all)-lines):], "\n"))
}

//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one server: its folder, its command, and while it runs its pid.
// The pid is also in the folder's file "pid", for the watchdog.
type process struct {
	dir  string
	args []string
	env  []string
	pid  int // 0 while it does not run
}

func (p *process) logFile() string { return filepath.Join(p.dir, "log") }

func (p *process) start() error {
	if p.pid != 0 {
		return fmt.Errorf("start %s: it already runs", p.args[0])
	}
	who, err := serverAccount()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the server has its own copy
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + p.dir}, p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	detach(cmd, who)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.args[0], err)
	}
	p.pid = cmd.Process.Pid
	// Released, and waited for by pid: a goroutine in Wait for each shared
	// server would look like a leak to every test that checks for leaks.
	if err := cmd.Process.Release(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.dir, "pid"), []byte(strconv.Itoa(p.pid)+"\n"), 0o644)
}

// await polls ready until it succeeds, the server ends, or grace is over.
func (p *process) await(ready func() error) error {
	deadline := time.Now().Add(grace)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if p.exited() {
			return fmt.Errorf("%s ended at its start:\n%s", filepath.Base(p.args[0]), p.logTail(20))
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s not ready: %w\n%s", filepath.Base(p.args[0]), err, p.logTail(20))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// signal sends sig to the server's main process.
func (p *process) signal(sig syscall.Signal) error {
	if p.pid == 0 {
		return errors.New("server does not run")
	}
	return syscall.Kill(p.pid, sig)
}

// stop asks with sig, waits, and kills after grace.
func (p *process) stop(sig syscall.Signal) error {
	if p.pid == 0 || p.exited() {
		return nil
	}
	if err := p.signal(sig); err != nil {
		return err
	}
	for deadline := time.Now().Add(grace); time.Now().Before(deadline); {
		if p.exited() {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.Join(fmt.Errorf("%s did not stop on %v", p.args[0], sig), p.kill())
}

// exited collects the server's exit if there is one.
func (p *process) exited() bool {
	if p.pid == 0 {
		return true
	}
	if !reaped(p.pid) {
		return false
	}
	p.pid = 0
	_ = os.Remove(filepath.Join(p.dir, "pid"))
	return true
}

func (p *process) logTail(lines int) string {
	b, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

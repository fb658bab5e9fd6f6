//go:build unix

package testenv

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// server is what all servers have in common: tests start, stop, kill and pause
// them. Its methods fail the server's test on an error, so they belong to that
// test's own goroutine. On a shared server they panic: no test may disturb the
// others.
type server struct {
	name  string
	proc  *process // nil for a server that the environment names
	tb    testing.TB
	ready func() error   // nil once the server answers
	quit  syscall.Signal // asks for an orderly end
}

// Start starts the server after Kill or Stop, on the same port and data, and
// returns when it answers.
func (s *server) Start() {
	s.private().Helper()
	s.check("start", s.start())
}

// Stop shuts the server down in good order: clients are thrown out, everything
// is written.
func (s *server) Stop() {
	s.private().Helper()
	s.check("stop", s.proc.stop(s.quit))
}

// Kill ends all of the server's processes with SIGKILL, as a crash does, and
// returns when they are gone.
func (s *server) Kill() {
	s.private().Helper()
	s.check("kill", s.proc.kill())
}

// Restart is Stop and Start.
func (s *server) Restart() {
	s.private().Helper()
	s.Stop()
	s.Start()
}

// Pause stops every process of the server with SIGSTOP: connections stay open,
// the system accepts new ones, and nothing answers. Resume wakes them.
func (s *server) Pause() {
	s.private().Helper()
	_, err := s.proc.freeze()
	s.check("pause", err)
}

// Resume ends Pause.
func (s *server) Resume() {
	s.private().Helper()
	s.check("resume", s.proc.thaw())
}

// LogFile is the path of the file that holds what the server printed. It is
// empty for a server that the environment names.
func (s *server) LogFile() string {
	if s.proc == nil {
		return ""
	}
	return s.proc.logFile()
}

func (s *server) start() error {
	if err := s.proc.start(); err != nil {
		return err
	}
	return s.proc.await(s.ready)
}

// adopt ties the server to a test: its failures are the test's, and it and its
// folder are gone after it. last runs between the two.
func (s *server) adopt(t testing.TB, last func() error) {
	s.tb = t
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of %s's log:\n%s", s.name, s.proc.logTail(40))
		}
		if s.proc.pid != 0 {
			_ = s.proc.thaw() // it may be paused
		}
		err := s.proc.stop(syscall.SIGQUIT)
		if last != nil {
			err = errors.Join(err, last())
		}
		if err := errors.Join(err, os.RemoveAll(s.proc.dir)); err != nil {
			t.Errorf("remove %s: %v", s.name, err)
		}
	})
}

func (s *server) private() testing.TB {
	if s.tb == nil {
		panic("testenv: " + s.name + " is shared; a test that stops it starts one of its own")
	}
	return s.tb
}

func (s *server) check(what string, err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatalf("%s %s: %v", what, s.name, err)
	}
}

package testenv

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo is a server that answers each line with the same line.
func echo(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			}()
		}
	}()
	return l.Addr().String()
}

type line struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) line {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return line{c, bufio.NewReader(c)}
}

// ask sends a line and reads one, for at most d.
func (l line) ask(s string, d time.Duration) (string, error) {
	if _, err := io.WriteString(l, s+"\n"); err != nil {
		return "", err
	}
	if err := l.SetReadDeadline(time.Now().Add(d)); err != nil {
		return "", err
	}
	got, err := l.r.ReadString('\n')
	return got, err
}

func wantAnswer(t *testing.T, l line, s string) {
	t.Helper()
	if got, err := l.ask(s, 10*time.Second); err != nil || got != s+"\n" {
		t.Fatalf("answer %q, %v; want %q", got, err, s)
	}
}

func wantSilence(t *testing.T, l line, s string) {
	t.Helper()
	if got, err := l.ask(s, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("answer %q, %v; want none", got, err)
	}
}

func wantReset(t *testing.T, l line) {
	t.Helper()
	if got, err := l.ask("x", 10*time.Second); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("answer %q, %v; want a broken connection", got, err)
	}
}

func TestProxy_CutBreaksOpenConnectionsOnly(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	old := dial(t, p.Addr())
	wantAnswer(t, old, "a")
	p.Cut()
	wantReset(t, old)
	wantAnswer(t, dial(t, p.Addr()), "b")
}

func TestProxy_PauseIsHalfOpen(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	old := dial(t, p.Addr())
	wantAnswer(t, old, "a")
	p.Pause()
	fresh := dial(t, p.Addr())
	wantSilence(t, old, "b")
	wantSilence(t, fresh, "c")
	p.Resume()
	for l, want := range map[line]string{old: "b\n", fresh: "c\n"} {
		_ = l.SetReadDeadline(time.Now().Add(10 * time.Second))
		if got, err := l.r.ReadString('\n'); err != nil || got != want {
			t.Errorf("after Resume %q, %v; want %q", got, err, want)
		}
	}
}

func TestProxy_DropRepliesLetsRequestsThrough(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	old := dial(t, p.Addr())
	p.DropReplies()
	wantSilence(t, old, "a")
	p.Resume()
	wantReset(t, old)
	wantAnswer(t, dial(t, p.Addr()), "b")
}

func TestProxy_RefuseResetsNewConnections(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	p.Refuse()
	if c, err := net.Dial("tcp", p.Addr()); err == nil { // the reset may even come before Dial returns
		wantReset(t, line{c, bufio.NewReader(c)})
	}
	p.Resume()
	wantAnswer(t, dial(t, p.Addr()), "a")
}

func TestProxy_SetDelayHoldsChunksBack(t *testing.T) {
	t.Parallel()
	p := Proxy(t, echo(t))
	l := dial(t, p.Addr())
	wantAnswer(t, l, "a")
	p.SetDelay(50 * time.Millisecond)
	begin := time.Now()
	wantAnswer(t, l, "b")
	if took := time.Since(begin); took < 100*time.Millisecond {
		t.Errorf("round trip took %v, want at least twice the delay", took)
	}
}

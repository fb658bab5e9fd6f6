package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/testenv"
)

// running is a relay that runs in this process.
type running struct {
	errors *lockedBuffer
	stop   func() int // ends it and returns its exit code
}

func startRelay(t *testing.T, env []string, args ...string) running {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var out, errors lockedBuffer
	code := make(chan int, 1)
	env = append([]string{"POSTRIDER_ADMIN__LISTEN=127.0.0.1:0", "POSTRIDER_RELAY__LEASE=2s", "POSTRIDER_RELAY__PUBLISH_TIMEOUT=1s"}, env...)
	go func() {
		code <- run(ctx, append([]string{"relay"}, args...), strings.NewReader(""), &out, &errors, env)
	}()
	stopped := false
	r := running{errors: &errors, stop: func() int { cancel(); stopped = true; return <-code }}
	t.Cleanup(func() {
		if !stopped {
			r.stop()
		}
		silentOn(t, "postrider relay", out.String()+errors.String())
	})
	return r
}

// waitFor returns once the relay's log holds the text.
func (r running) waitFor(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(r.errors.String(), text) }, func() string {
		return "no " + text + " in\n" + r.errors.String()
	})
}

func eventually(t *testing.T, ok func() bool, why func() string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal(why())
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// withPassword puts another password into a URL.
func withPassword(t *testing.T, text, password string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String()
}

// TestRelay_OutlivesWhatItCannotReach: at the start too, what is unreachable or
// refuses a password is a line in the log with a hint, and is tried again. The
// password that is rotated in url_file is the cure, without a restart.
func TestRelay_OutlivesAWrongPasswordUntilItIsRotated(t *testing.T) {
	t.Parallel()
	d := newPG(t)
	must(t, d.env(), "migrate", "up")
	role := d.pg.Role(t, "")
	d.exec(t, must(t, d.env(), "grants", "--relay", role, "--writer", role))
	right := testenv.As(t, d.url, role)
	file := filepath.Join(t.TempDir(), "url")
	if err := os.WriteFile(file, []byte(withPassword(t, right, canary)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, d.env(), "write", "--topic", "t", "--payload", "x")
	out := filepath.Join(t.TempDir(), "out")
	r := startRelay(t, []string{"POSTRIDER_DATABASE=@" + file, "POSTRIDER_BROKER=file:" + out})
	r.waitFor(t, "database unreachable")
	contains(t, r.errors.String(), "password", "hint=")

	complains(t, []string{"POSTRIDER_DATABASE=@" + file, "POSTRIDER_BROKER=stdout:"}, exitFailed, []string{"password"}, "relay", "--once")
	if err := os.WriteFile(file, []byte(right+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.waitFor(t, "database opened")
	eventually(t, func() bool { text, _ := os.ReadFile(out); return len(text) > 0 }, func() string { return "nothing delivered" })
	if code := r.stop(); code != exitFine {
		t.Errorf("exit %d\n%s", code, r.errors)
	}
}

func TestRelay_UnreachableDatabaseAndBroker(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody answers on
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}

	t.Run("database", func(t *testing.T) {
		t.Parallel()
		env := []string{"POSTRIDER_DATABASE=postgres://app:" + canary + "@" + closed + "/d", "POSTRIDER_BROKER=stdout:"}
		r := startRelay(t, env)
		r.waitFor(t, "database unreachable")
		if code := r.stop(); code != exitFine {
			t.Errorf("exit %d\n%s", code, r.errors)
		}
		complains(t, env, exitFailed, []string{"error: "}, "relay", "--once")
		r2 := program(t, env, "status")
		if r2.code != exitFailed {
			t.Errorf("status: exit %d\n%s", r2.code, r2.shown())
		}
		contains(t, r2.errors, "hint: check that the server runs")
	})
	t.Run("broker", func(t *testing.T) {
		t.Parallel()
		d := newFileDB(t)
		must(t, d.env(), "migrate", "up")
		id := strings.TrimSpace(must(t, d.env(), "write", "--topic", "t", "--payload", "x"))
		env := append(d.env(), "POSTRIDER_BROKER=nats://app:"+canary+"@"+closed)
		complains(t, env, exitFailed, []string{"left: ", "unavailable", "hint: "}, "relay", "--once")
		r := startRelay(t, env)
		r.waitFor(t, "destination unavailable")
		admin := adminAddress(t, r)
		contains(t, must(t, append(env, "POSTRIDER_ADMIN__LISTEN="+admin), "why", id), "owned by relay", `destination "t" of broker "default" has been down for`)
		contains(t, must(t, env, "status"), "pending 1", "RELAY")
		for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/progressz": 200, "/metrics": 200, "/": 404} {
			if code, _ := get(t, "http://"+admin+path); code != want {
				t.Errorf("%s: %d", path, code)
			}
		}
		_, metrics := get(t, "http://"+admin+"/metrics")
		contains(t, metrics, `outbox_pending_events{database="default",topic="t"} 1`, "outbox_publish_seconds_count")
		if code := r.stop(); code != exitFine {
			t.Errorf("exit %d\n%s", code, r.errors)
		}
	})
}

func adminAddress(t *testing.T, r running) string {
	t.Helper()
	r.waitFor(t, "health checks and metrics")
	return regexp.MustCompile(`http://([^\s"]+)`).FindStringSubmatch(r.errors.String())[1]
}

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestRelay_JetStream(t *testing.T) {
	t.Parallel()
	server := testenv.StartNATS(t, testenv.NATSConfig{User: "app", Password: canary})
	eachKind(t, func(t *testing.T, d database) {
		must(t, d.env(), "migrate", "up")
		topic := "t" + strings.ReplaceAll(strings.ReplaceAll(t.Name(), "/", "_"), ".", "_")
		must(t, d.env(), "write", "--topic", topic, "--key", "k", "--payload", "x")
		r := program(t, append(d.env(), "POSTRIDER_BROKER=nats://app:"+canary+"@"+server.Addr()+"?create_stream=true"), "relay", "--once")
		if r.code != exitFine {
			t.Fatal(r.shown())
		}
		contains(t, r.errors, "delivered 1 events")
	})
}

func TestRelay_TakenAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	d := newFileDB(t)
	must(t, d.env(), "migrate", "up")
	complains(t, append(d.env(), "POSTRIDER_BROKER=stdout:", "POSTRIDER_ADMIN__LISTEN="+listener.Addr().String()),
		exitFailed, []string{"admin.listen", "hint: choose another address"}, "relay")
}

// TestRelay_Signals runs the program as a process of its own.
func TestRelay_Signals(t *testing.T) {
	t.Parallel()
	d := newFileDB(t)
	must(t, d.env(), "migrate", "up")
	start := func(t *testing.T, env ...string) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.Command(os.Args[0], "relay")
		cmd.Env = append(append(os.Environ(), d.env()...), env...)
		cmd.Env = append(cmd.Env, "POSTRIDER_TEST_AS_PROGRAM=1", "POSTRIDER_ADMIN__LISTEN=off")
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() }) //nolint:errcheck // it has ended already
		return cmd, bufio.NewScanner(pipe)
	}
	until := func(t *testing.T, log *bufio.Scanner, text string) {
		t.Helper()
		for log.Scan() {
			if strings.Contains(log.Text(), text) {
				return
			}
		}
		t.Fatalf("no %q in the log", text)
	}
	t.Run("the first drains", func(t *testing.T) {
		cmd, log := start(t, "POSTRIDER_BROKER=stdout:")
		until(t, log, "lanes gained")
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // Wait tells
		until(t, log, "relay stopped")
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	t.Run("the second stops at once", func(t *testing.T) {
		// A broker that takes connections and never answers keeps a call waiting.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				io.WriteString(conn, `INFO {"server_id":"x","version":"2.10.0","max_payload":1048576,"headers":true,"jetstream":true}`+"\r\n") //nolint:errcheck // the client finds out
				go answerPings(conn)
			}
		}()
		must(t, d.env(), "write", "--topic", "t", "--payload", "x")
		cmd, log := start(t, "POSTRIDER_BROKER=nats://"+listener.Addr().String(), "POSTRIDER_RELAY__LEASE=300s", "POSTRIDER_RELAY__PUBLISH_TIMEOUT=100s", "POSTRIDER_RELAY__DRAIN_TIMEOUT=200s")
		until(t, log, "lanes gained")
		time.Sleep(500 * time.Millisecond)  // the call has no sign of its own
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // Wait tells
		until(t, log, "stopping")
		time.Sleep(2 * echo)
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // Wait tells
		until(t, log, "stopped at once")
		cmd.Wait() //nolint:errcheck // the code is looked at
		if code := cmd.ProcessState.ExitCode(); code != exitFailed {
			t.Errorf("exit %d", code)
		}
	})
}

// answerPings is a NATS server that is alive and acknowledges nothing.
func answerPings(conn net.Conn) {
	in := bufio.NewScanner(conn)
	for in.Scan() {
		if strings.HasPrefix(in.Text(), "PING") {
			io.WriteString(conn, "PONG\r\n") //nolint:errcheck // the client finds out
		}
	}
}

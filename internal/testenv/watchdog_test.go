//go:build unix

package testenv

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary play the victim of the watchdog's test.
func TestMain(m *testing.M) {
	if os.Getenv("TESTENV_VICTIM") != "" {
		victim()
	}
	os.Exit(m.Run())
}

// victim starts the shared servers, pauses one, prints their pids and the
// folder, and waits to be killed.
func victim() {
	pg, errPG := sharedPostgres.get(DefaultPostgres)
	n, errNATS := sharedNATS()
	if errPG != nil || errNATS != nil || pg == nil || n == nil {
		os.Exit(1)
	}
	if _, err := n.proc.freeze(); err != nil {
		os.Exit(1)
	}
	fmt.Println(filepath.Dir(pg.proc.dir), pg.proc.pid, n.proc.pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func TestWatchdog_CleansUpAfterAKilledTestBinary(t *testing.T) {
	t.Parallel()
	Postgres(t)
	NATS(t) // skips where the victim would find none
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "TESTENV_VICTIM=1", "POSTRIDER_TEST_POSTGRES=", "POSTRIDER_TEST_NATS=")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("victim: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	fields := strings.Fields(said)
	var pids []int
	for _, f := range fields[1:] {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	for deadline := time.Now().Add(grace); ; time.Sleep(20 * time.Millisecond) {
		_, err := os.Stat(fields[0])
		if os.IsNotExist(err) && !anyAlive(pids) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still there: folder %v, processes %t", err == nil, anyAlive(pids))
		}
	}
}

//go:build unix

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
)

// watchdogScript outlives the test binary by a moment. It waits in cat until
// the last holder of the pipe's other end, the test binary, is gone. Then every
// server named in a pid file is woken (it may be paused) and asked to stop at
// once with SIGQUIT, on which PostgreSQL also frees its shared memory; whoever
// is left after five seconds is killed.
const watchdogScript = `trap '' HUP INT TERM QUIT
cat >/dev/null
pids=$(cat "$1"/*/pid 2>/dev/null)
for p in $pids; do kill -CONT $p; kill -QUIT $p; done
for i in 1 2 3 4 5 6 7 8 9 10; do
  left=; for p in $pids; do kill -0 $p && left="$left $p"; done
  [ -z "$left" ] && break
  sleep 0.5
done
for p in $left; do kill -KILL $p; done
rm -rf "$1" || { sleep 1; rm -rf "$1"; }
`

// leash keeps the pipe's write end reachable: a collected *os.File would close
// it and let the watchdog loose on a live test.
var leash struct {
	sync.Mutex
	files []*os.File
}

func startWatchdog(dir string) error {
	read, write, err := os.Pipe() // close-on-exec: no server holds the write end
	if err != nil {
		return err
	}
	cmd := exec.Command("/bin/sh", "-c", watchdogScript, "postrider-test-watchdog", dir)
	cmd.Dir = "/"
	cmd.Stdin = read
	detach(cmd, account{})
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("watchdog: %w", err)
	}
	leash.Lock()
	leash.files = append(leash.files, write)
	leash.Unlock()
	return read.Close()
}

//go:build unix

package testenv

import (
	"os/exec"
	"syscall"
)

// detach gives cmd a session of its own, so that an interrupt typed at the
// terminal reaches the test binary only, and the user who it should run as.
func detach(cmd *exec.Cmd, who account) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if who.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(who.uid), Gid: uint32(who.gid)}
	}
}

// reaped collects the exit of a child without waiting for it. A pid that is no
// child of ours any more has been collected before.
func reaped(pid int) bool {
	var status syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		return got == pid || err != nil
	}
}

//go:build unix

package file

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
)

// lock keeps other processes that append to the file away, until unlock or the
// end of the process.
func lock(f *os.File) (unlock func(), err error) {
	if err := flock(f, syscall.LOCK_EX); err != nil {
		return nil, err
	}
	return func() { _ = flock(f, syscall.LOCK_UN) }, nil
}

// flock goes through SyscallConn: File.Fd would make a pipe's writes blocking
// for good, and Close could not interrupt them.
func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Control(func(fd uintptr) {
		for {
			failed = syscall.Flock(int(fd), how)
			if failed != syscall.EINTR {
				return
			}
		}
	})
	return errors.Join(err, failed)
}

func syncFolder(path string) {
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync() // some file systems refuse; they need no such sync
		_ = dir.Close()
	}
}

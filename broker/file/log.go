package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// log is an open file of whole lines.
type log struct {
	f    *os.File
	path string
}

// openLog opens or makes the file. A new one is entered in its folder durably:
// without the folder's sync a crash may lose a file whose content was synced.
func openLog(path string, mode os.FileMode) (*log, error) {
	_, missing := os.Stat(path)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, mode)
	if err != nil {
		return nil, unwrapPath(err)
	}
	if missing != nil {
		syncFolder(path)
	}
	return &log{f, path}, nil
}

// current reports whether the path still leads to the open file.
func (l *log) current() bool {
	here, err1 := os.Stat(l.path)
	open, err2 := l.f.Stat()
	return err1 == nil && err2 == nil && os.SameFile(here, open)
}

// append writes whole lines, or none.
func (l *log) append(lines []byte, sync bool) error {
	unlock, err := lock(l.f)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	defer unlock()
	info, err := l.f.Stat()
	if err != nil {
		return unwrapPath(err)
	}
	size := info.Size()
	regular := info.Mode().IsRegular() // a pipe or a device has no end to go back to
	if regular {
		if err := l.endTornLine(size); err != nil {
			return err
		}
	}
	_, err = l.f.Write(lines)
	if err == nil && sync {
		if err = l.f.Sync(); errors.Is(err, syscall.EINVAL) && !regular {
			err = nil // what cannot be synced has taken it
		}
	}
	if err != nil && regular {
		// After a failed sync the pages may be marked clean although they are
		// not on the disk, so a second sync proves nothing: take the lines back
		// and write them again another time.
		if cut := l.f.Truncate(size); cut != nil {
			return errors.Join(unwrapPath(err), fmt.Errorf("cut back to the last whole line: %w", unwrapPath(cut)))
		}
	}
	return unwrapPath(err)
}

// endTornLine ends what a killed process, or a failure to cut back, has left
// without a newline, so that the next line stands by itself.
func (l *log) endTornLine(size int64) error {
	if size == 0 {
		return nil
	}
	var last [1]byte
	if _, err := l.f.ReadAt(last[:], size-1); err != nil {
		return unwrapPath(err)
	}
	if last[0] == '\n' {
		return nil
	}
	_, err := l.f.Write([]byte{'\n'})
	return unwrapPath(err)
}

func (l *log) close() error { return unwrapPath(l.f.Close()) }

// unwrapPath leaves the operation and the path out: the caller names the file.
func unwrapPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

func hintFor(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "make room on the disk; the relay waits"
	case errors.Is(err, fs.ErrPermission):
		return "give the relay's user the right to write the file"
	case errors.Is(err, fs.ErrNotExist):
		return "make the file's folder"
	}
	return ""
}

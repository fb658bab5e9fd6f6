//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// home is the temporary folder of this test binary's servers. It is made with
// the first server and removed by the watchdog.
var home = sync.OnceValues(func() (string, error) {
	who, err := serverAccount()
	if err != nil {
		return "", err
	}
	for _, base := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		if who.drop && !openToAll(base) {
			continue
		}
		dir, err := os.MkdirTemp(base, "postrider-test-")
		if err != nil {
			continue
		}
		if err := who.own(dir); err != nil {
			return "", errors.Join(err, os.RemoveAll(dir))
		}
		return dir, startWatchdog(dir)
	}
	return "", fmt.Errorf("no temporary folder that user %q can reach", who.name)
})

// newDir makes a folder for one server; the server's user owns it.
func newDir(kind string) (string, error) {
	base, err := home()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(base, kind+"-")
	if err != nil {
		return "", err
	}
	who, err := serverAccount()
	if err != nil {
		return "", err
	}
	return dir, who.own(dir)
}

// writeFile writes a file that the server's user owns.
func writeFile(path, content string, mode os.FileMode) error {
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	who, err := serverAccount()
	if err != nil {
		return err
	}
	return who.own(path)
}

// openToAll reports whether every user can walk to path: under a root's home
// or a private TMPDIR the user "postgres" finds nothing.
func openToAll(path string) bool {
	path, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if parent := filepath.Dir(path); parent != path {
			path = parent
			continue
		}
		return true
	}
}

//go:build unix

package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// initialized are the fresh data folders of this test binary, by version. One
// is made by initdb, about a second of work, and copied for each server.
var initialized templates

type templates struct {
	mu sync.Mutex
	by map[int]func() (string, error)
}

// get returns the template of version, whose binaries are in bin.
func (s *templates) get(version int, bin string) (string, error) {
	s.mu.Lock()
	create, ok := s.by[version]
	if !ok {
		create = sync.OnceValues(func() (string, error) { return initdb(bin) })
		if s.by == nil {
			s.by = map[int]func() (string, error){}
		}
		s.by[version] = create
	}
	s.mu.Unlock()
	return create()
}

func initdb(bin string) (data string, err error) {
	who, err := serverAccount()
	if err != nil {
		return "", err
	}
	dir, err := newDir("postgres-template")
	if err != nil {
		return "", err
	}
	password := filepath.Join(dir, "password")
	if err := writeFile(password, Password+"\n", 0o600); err != nil {
		return "", err
	}
	data = filepath.Join(dir, "data")
	cmd := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "-A", "scram-sha-256",
		"--pwfile", password, "-E", "UTF8", "--locale", "C", "--no-sync", "--no-instructions")
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	detach(cmd, who)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return data, nil
}

// copyFolder makes the folder to, as private as PostgreSQL wants it, and fills
// it from another.
func copyFolder(from, to string, except ...string) error {
	who, err := serverAccount()
	if err != nil {
		return err
	}
	if err := errors.Join(os.Mkdir(to, 0o700), who.own(to)); err != nil {
		return err
	}
	return copyTree(from, to, except...)
}

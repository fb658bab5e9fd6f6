//go:build unix

package testenv

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// DefaultPostgres is the version of the shared server and of private ones that
// ask for none: the oldest one that the whole suite runs on.
const DefaultPostgres = 15

// findPostgres returns the folder of version's binaries: Debian's package, or
// what "make deps" put into the cache.
func findPostgres(version int) (string, error) {
	v := strconv.Itoa(version)
	candidates := []string{filepath.Join("/usr/lib/postgresql", v, "bin")}
	for _, cache := range caches() {
		candidates = append(candidates, filepath.Join(cache, "postgres", v, "bin"))
	}
	for _, dir := range candidates {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	// Other systems have one version on the PATH.
	if file, err := exec.LookPath("postgres"); err == nil {
		out, err := exec.Command(file, "--version").Output()
		if err == nil && strings.Contains(string(out), " "+v+".") {
			return filepath.Dir(file), nil
		}
	}
	return "", fmt.Errorf("no PostgreSQL %d in %s", version, strings.Join(candidates, ", "))
}

// caches are the places where "make deps" may have put servers: .cache of the
// repository and the user's cache folder.
func caches() []string {
	var dirs []string
	if dir, err := os.Getwd(); err == nil {
		for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
				dirs = append(dirs, filepath.Join(dir, ".cache"))
				break
			}
		}
	}
	if dir, err := os.UserCacheDir(); err == nil {
		dirs = append(dirs, filepath.Join(dir, "postrider"))
	}
	return dirs
}

// reachable makes binaries that lie under a folder closed to the server's user
// (a checkout in root's home) usable: it copies the installation beside the
// servers' data, once per test binary.
var copied struct {
	sync.Mutex
	to map[string]string
}

func reachable(bin string) (string, error) {
	who, err := serverAccount()
	if err != nil || !who.drop || openToAll(bin) {
		return bin, err
	}
	copied.Lock()
	defer copied.Unlock()
	if to, ok := copied.to[bin]; ok {
		return to, nil
	}
	base, err := newDir("postgres-binaries")
	if err != nil {
		return "", err
	}
	if err := copyTree(filepath.Dir(bin), base); err != nil {
		return "", err
	}
	if copied.to == nil {
		copied.to = map[string]string{}
	}
	copied.to[bin] = filepath.Join(base, "bin")
	return copied.to[bin], nil
}

// copyTree copies from into the existing folder to; the server's user owns the
// copy. Files that vanish meanwhile are left out: a running server's do.
func copyTree(from, to string, except ...string) error {
	who, err := serverAccount()
	if err != nil {
		return err
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		for _, pattern := range except {
			if match, _ := filepath.Match(pattern, rel); match {
				return nil
			}
		}
		target := filepath.Join(to, rel)
		if err := copyEntry(path, target, entry); err != nil {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		return who.own(target)
	})
}

func copyEntry(path, target string, entry fs.DirEntry) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	switch {
	case entry.IsDir():
		return os.Mkdir(target, info.Mode().Perm())
	case info.Mode()&fs.ModeSymlink != 0:
		link, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(link, target)
	default:
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, b, info.Mode().Perm())
	}
}

//go:build unix

package testenv

import (
	"errors"
	"os"
	"os/user"
	"strconv"
	"sync"
)

// account is the user that servers run as.
type account struct {
	name     string
	uid, gid int
	drop     bool // the tests run as root, so the server must change its user
}

var serverAccount = sync.OnceValues(func() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "own", uid: os.Geteuid(), gid: os.Getegid()}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.Atoi(u.Uid)
		gid, errGID := strconv.Atoi(u.Gid)
		if err := errors.Join(errUID, errGID); err != nil {
			return account{}, err
		}
		return account{name: name, uid: uid, gid: gid, drop: true}, nil
	}
	return account{}, errors.New(`no user "postgres" or "nobody" to run servers as`)
})

// own gives a file or folder to the account.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

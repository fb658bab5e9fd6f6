//go:build unix

package testenv

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// DatabaseOption changes how [PG.Database] makes a database.
type DatabaseOption func(*databaseOptions)

type databaseOptions struct{ encoding, owner, name string }

// Encoding makes the database with this encoding, "LATIN1" for example, and
// locale C. Default UTF8.
func Encoding(name string) DatabaseOption {
	return func(o *databaseOptions) { o.encoding = name }
}

// Owner makes this role, which must exist, the database's owner. Default the
// superuser.
func Owner(role string) DatabaseOption {
	return func(o *databaseOptions) { o.owner = role }
}

// Database makes a database for this test and returns the superuser's URL of
// it. It is dropped after the test, whoever is still connected.
func (p *PG) Database(t testing.TB, options ...DatabaseOption) string {
	t.Helper()
	o := databaseOptions{encoding: "UTF8", name: "test_" + unique()}
	for _, option := range options {
		option(&o)
	}
	// template0: nobody can be connected to it, and a template with someone
	// connected cannot be copied.
	sql := fmt.Sprintf(`CREATE DATABASE %s TEMPLATE template0 ENCODING '%s' LC_COLLATE 'C' LC_CTYPE 'C'`, o.name, o.encoding)
	if o.owner != "" {
		sql += " OWNER " + quote(o.owner)
	}
	p.Exec(t, p.Admin(), sql)
	t.Cleanup(func() {
		if p.proc != nil && p.proc.pid == 0 {
			return // a private server that the test left down
		}
		if err := execute(p.Admin(), "DROP DATABASE "+o.name+" WITH (FORCE)"); err != nil {
			t.Logf("database %s stays: %v", o.name, err)
		}
	})
	return p.URL("", o.name)
}

// Role makes a role with [Password] and the given attributes ("LOGIN" if
// none), and returns its name, which is unique. It is not dropped before the
// server ends: it may own things.
func (p *PG) Role(t testing.TB, attributes string) string {
	t.Helper()
	if attributes == "" {
		attributes = "LOGIN"
	}
	name := "role_" + unique()
	p.Exec(t, p.Admin(), fmt.Sprintf(`CREATE ROLE %s PASSWORD '%s' %s`, name, Password, attributes))
	return name
}

// As returns databaseURL for another user, who has [Password].
func As(t testing.TB, databaseURL, user string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatalf("database URL: %v", err)
	}
	u.User = url.UserPassword(user, Password)
	return u.String()
}

func unique() string { return strings.ToLower(rand.Text()[:12]) }

func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

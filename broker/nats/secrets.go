package nats

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	natsgo "github.com/nats-io/nats.go"
)

// address is a parsed URL: servers without credentials, which are given to the
// client apart, so that no error text of it can show them.
type address struct {
	servers        []string
	user, password string
	token          string
}

var errURL = errors.New("url: not of the form nats://[user:password@]host[:port][,host…]")

// parseURL never repeats the URL in an error: it may hold a password.
func parseURL(raw string) (address, error) {
	var a address
	scheme, rest, ok := strings.Cut(strings.TrimSpace(raw), "://")
	if !ok || scheme != "nats" && scheme != "tls" {
		return a, errURL
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		u, err := url.Parse("nats://" + rest[:at] + "@host")
		if err != nil || u.User == nil {
			return a, errURL
		}
		if pw, ok := u.User.Password(); ok {
			a.user, a.password = u.User.Username(), pw
		} else {
			a.token = u.User.Username()
		}
		rest = rest[at+1:]
	}
	for host := range strings.SplitSeq(rest, ",") {
		u, err := url.Parse(scheme + "://" + strings.TrimSpace(host))
		if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
			return a, errURL
		}
		a.servers = append(a.servers, scheme+"://"+u.Host)
	}
	return a, nil
}

// address reads the URL, from its file if there is one.
func (c *Config) address() (address, error) {
	if c.URLFile == "" {
		return parseURL(c.URL)
	}
	raw, err := readSecret(c.URLFile)
	if err != nil {
		return address{}, fmt.Errorf("url_file: %w", err)
	}
	base, _, _ := strings.Cut(raw, "?")
	return parseURL(base)
}

// credentials are client options whose secrets are read at each connect, so that
// a rotated secret is used by the next connection, without a restart. A seed's
// public key is the exception of nats.go: it is read when the client starts
// afresh, which it does after the server has refused it twice.
func (c *Config) credentials(a address) ([]natsgo.Option, error) {
	switch {
	case c.CredsFile != "":
		return []natsgo.Option{natsgo.UserCredentials(c.CredsFile)}, nil
	case c.NkeyFile != "":
		opt, err := natsgo.NkeyOptionFromSeed(c.NkeyFile)
		if err != nil {
			return nil, fmt.Errorf("nkey_file: %w", err)
		}
		return []natsgo.Option{opt}, nil
	case c.TokenFile != "":
		return []natsgo.Option{natsgo.TokenHandler(func() string {
			token, _ := readSecret(c.TokenFile) // without one the server says what is wrong
			return token
		})}, nil
	case a.token != "":
		return []natsgo.Option{natsgo.TokenHandler(func() string { return c.again(a).token })}, nil
	case a.user != "" || a.password != "":
		return []natsgo.Option{natsgo.UserInfoHandler(func() (string, string) {
			now := c.again(a)
			return now.user, now.password
		})}, nil
	}
	return nil, nil
}

// again reads the URL's file once more, or says what was known.
func (c *Config) again(known address) address {
	if now, err := c.address(); err == nil {
		return now
	}
	return known
}

func (c *Config) tls() []natsgo.Option {
	var cert natsgo.TLSCertHandler
	var roots natsgo.RootCAsHandler
	if c.TLS.CertFile != "" {
		cert = func() (tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
			if err != nil {
				return pair, fmt.Errorf("tls cert_file: %w", err)
			}
			return pair, nil
		}
	}
	if c.TLS.CAFile != "" {
		roots = func() (*x509.CertPool, error) {
			pem, err := os.ReadFile(c.TLS.CAFile)
			if err != nil {
				return nil, fmt.Errorf("tls ca_file: %w", err)
			}
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem) {
				return nil, fmt.Errorf("tls ca_file %s: no certificate in it", c.TLS.CAFile)
			}
			return pool, nil
		}
	}
	if cert == nil && roots == nil {
		return nil
	}
	return []natsgo.Option{natsgo.ClientTLSConfig(cert, roots)}
}

func readSecret(file string) (string, error) {
	b, err := os.ReadFile(file)
	return strings.TrimSpace(string(b)), err
}

//go:build unix

package testenv

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// NATSConfig describes a private NATS server. It has JetStream on.
type NATSConfig struct {
	// User and Password are what clients log in with. Default: no login.
	User, Password string
	// Token is what clients log in with. Default: no login.
	Token string
	// NKey is the public user nkey that clients prove. Default: no login.
	NKey string
	// TLS makes the server require TLS with a certificate for 127.0.0.1 and
	// localhost of an authority in [NATSServer.CAFile].
	TLS bool
	// VerifyClients makes the server, with TLS, also require a certificate of
	// that authority from clients: [NATSServer.ClientCert].
	VerifyClients bool
	// MaxPayload is the size in bytes of the largest message. Default 1 MiB.
	MaxPayload int
	// NoJetStream leaves JetStream off.
	NoJetStream bool
	// Extra is added to the configuration file.
	Extra string
}

// NATSServer is a running NATS server. Streams survive Kill and Stop.
type NATSServer struct {
	server
	cfg     NATSConfig
	addr    string
	monitor string
	given   string
	ca      *authority
}

// NATS returns the server that all tests of this test binary share, or the one
// that POSTRIDER_TEST_NATS names. Take streams and subjects of your own.
func NATS(t testing.TB) *NATSServer {
	t.Helper()
	n, err := sharedNATS()
	if err != nil {
		t.Fatalf("shared NATS: %v", err)
	}
	if n == nil {
		missingNATS(t)
	}
	return n
}

func missingNATS(t testing.TB) {
	t.Helper()
	missing(t, "nats-server", `run "make deps", or install the package nats-server, or set POSTRIDER_TEST_NATS to a URL`)
}

// sharedNATS returns nil, nil where no server is installed.
var sharedNATS = sync.OnceValues(func() (*NATSServer, error) {
	if given := os.Getenv("POSTRIDER_TEST_NATS"); given != "" {
		return &NATSServer{server: server{name: "NATS"}, given: given}, nil
	}
	if _, err := findBinary("nats-server"); err != nil {
		return nil, nil //nolint:nilerr,nilnil // absent is not an error here
	}
	n, err := newNATS(NATSConfig{})
	if err != nil {
		return nil, err
	}
	return n, n.start()
})

// StartNATS starts a server for this test alone; it is gone after the test.
func StartNATS(t testing.TB, cfg NATSConfig) *NATSServer {
	t.Helper()
	if _, err := findBinary("nats-server"); err != nil {
		missingNATS(t)
	}
	n, err := newNATS(cfg)
	if err != nil {
		t.Fatalf("private NATS: %v", err)
	}
	n.adopt(t, nil)
	n.Start()
	return n
}

// URL is the server's address with what [NATSConfig] asks clients for, except
// keys and certificates: nats://user:password@127.0.0.1:port, or tls://….
func (n *NATSServer) URL() string {
	if n.given != "" {
		return n.given
	}
	u := url.URL{Scheme: "nats", Host: n.addr}
	if n.cfg.TLS {
		u.Scheme = "tls"
	}
	switch {
	case n.cfg.User != "":
		u.User = url.UserPassword(n.cfg.User, n.cfg.Password)
	case n.cfg.Token != "":
		u.User = url.User(n.cfg.Token)
	}
	return u.String()
}

// Addr is the server's host:port; empty for a server that the environment
// names.
func (n *NATSServer) Addr() string { return n.addr }

// MonitorURL is the base of the server's monitoring pages (/jsz, /connz …);
// empty for a server that the environment names.
func (n *NATSServer) MonitorURL() string { return "http://" + n.monitor }

// CAFile is the PEM file of the authority that signed the server's
// certificate, with NATSConfig.TLS.
func (n *NATSServer) CAFile() string { return n.ca.file("ca.pem") }

// ClientCert returns the PEM files of a client's certificate and key, with
// NATSConfig.TLS.
func (n *NATSServer) ClientCert() (cert, key string) {
	return n.ca.file("client.pem"), n.ca.file("client-key.pem")
}

// Reload makes the server read its configuration again, with cfg in place of
// what it was started with. Ports and TLS files stay.
func (n *NATSServer) Reload(cfg NATSConfig) {
	n.private().Helper()
	n.cfg = cfg
	n.check("configure", n.writeConfig())
	n.check("reload", n.proc.signal(syscall.SIGHUP))
}

func newNATS(cfg NATSConfig) (*NATSServer, error) {
	bin, err := findBinary("nats-server")
	if err != nil {
		return nil, err
	}
	dir, err := newDir("nats")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	n := &NATSServer{cfg: cfg, addr: loopback(ports[0]), monitor: loopback(ports[1])}
	n.server = server{
		name:  "NATS",
		proc:  &process{dir: dir, args: []string{bin, "-c", filepath.Join(dir, "nats.conf")}},
		ready: n.healthy,
		quit:  syscall.SIGTERM,
	}
	if cfg.TLS {
		if n.ca, err = newAuthority(dir); err != nil {
			return nil, err
		}
	}
	return n, n.writeConfig()
}

func (n *NATSServer) writeConfig() error {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: %q\nhttp: %q\n", n.addr, n.monitor)
	if n.cfg.MaxPayload > 0 {
		fmt.Fprintf(&b, "max_payload: %d\n", n.cfg.MaxPayload)
	}
	if !n.cfg.NoJetStream {
		fmt.Fprintf(&b, "jetstream { store_dir: %q }\n", filepath.Join(n.proc.dir, "jetstream"))
	}
	switch {
	case n.cfg.User != "":
		fmt.Fprintf(&b, "authorization { user: %q, password: %q }\n", n.cfg.User, n.cfg.Password)
	case n.cfg.Token != "":
		fmt.Fprintf(&b, "authorization { token: %q }\n", n.cfg.Token)
	case n.cfg.NKey != "":
		fmt.Fprintf(&b, "authorization { users: [ { nkey: %s } ] }\n", n.cfg.NKey)
	}
	if n.cfg.TLS {
		fmt.Fprintf(&b, "tls { cert_file: %q, key_file: %q, ca_file: %q, verify: %t }\n",
			n.ca.file("server.pem"), n.ca.file("server-key.pem"), n.ca.file("ca.pem"), n.cfg.VerifyClients)
	}
	b.WriteString(n.cfg.Extra + "\n")
	return writeFile(filepath.Join(n.proc.dir, "nats.conf"), b.String(), 0o600)
}

// healthy asks the monitoring page, which answers only when JetStream has
// recovered its streams: the client port opens before that.
func (n *NATSServer) healthy() error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: grace}
	resp, err := client.Get("http://" + n.monitor + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthz: %s", resp.Status)
	}
	return nil
}

// findBinary also looks where Debian puts servers, which is not on the PATH of
// ordinary users.
func findBinary(name string) (string, error) {
	if file, err := exec.LookPath(name); err == nil {
		return filepath.Abs(file)
	}
	return exec.LookPath(filepath.Join("/usr/sbin", name))
}

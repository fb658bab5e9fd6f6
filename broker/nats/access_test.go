package nats_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/relay"
)

const secret = "s3cret-of-the-broker"

func write(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reaches publishes to a stream that the broker makes: the login works.
func reaches(t *testing.T, cfg nats.Config) {
	t.Helper()
	cfg.CreateStream = true
	b := newBroker(t, cfg)
	if err := publishOne(t, b, event("e", "access.x", []byte("x"))); err != nil {
		t.Error(err)
	}
}

func TestAccess_UserAndPassword(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{User: "u", Password: secret})
	reaches(t, nats.Config{URL: s.URL()})
	reaches(t, nats.Config{URLFile: write(t, filepath.Join(t.TempDir(), "url"), s.URL()+"\n")})

	b := newBroker(t, nats.Config{URL: "nats://u:wrong-" + secret + "@" + s.Addr()})
	err := publishOne(t, b, event("e", "access.x", nil))
	if !relay.IsUnavailable(err) || relay.HintOf(err) == "" || strings.Contains(err.Error(), secret) {
		t.Errorf("wrong password: %v (hint %q), want unavailable, a hint and no password", err, relay.HintOf(err))
	}
}

// TestAccess_RotatedToken: the next connection uses what the file holds then.
func TestAccess_RotatedToken(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{Token: "first"})
	file := write(t, filepath.Join(t.TempDir(), "token"), "first\n")
	b := newBroker(t, nats.Config{URL: "nats://" + s.Addr(), TokenFile: file, CreateStream: true})
	if err := publishOne(t, b, event("e1", "access.x", nil)); err != nil {
		t.Fatal(err)
	}
	write(t, file, "second")
	s.Reload(testenv.NATSConfig{Token: "second"})
	s.Restart()
	retry(t, b, event("e2", "access.x", nil))
}

func TestAccess_NKey(t *testing.T) {
	t.Parallel()
	pair := func() (seed, public string) {
		kp, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		s, _ := kp.Seed()
		public, _ = kp.PublicKey()
		return string(s), public
	}
	seed, public := pair()
	s := testenv.StartNATS(t, testenv.NATSConfig{NKey: public})
	file := write(t, filepath.Join(t.TempDir(), "nkey"), seed)
	b := newBroker(t, nats.Config{URL: s.URL(), NkeyFile: file, CreateStream: true})
	if err := publishOne(t, b, event("e1", "access.x", nil)); err != nil {
		t.Fatal(err)
	}
	// nats.go keeps the public key of a client; the broker starts a new one when
	// the old key is refused.
	seed, public = pair()
	write(t, file, seed)
	s.Reload(testenv.NATSConfig{NKey: public})
	s.Restart()
	retry(t, b, event("e2", "access.x", nil))
}

func TestAccess_TLS(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{TLS: true, VerifyClients: true})
	cert, key := s.ClientCert()
	reaches(t, nats.Config{URL: s.URL(), TLS: nats.TLS{CAFile: s.CAFile(), CertFile: cert, KeyFile: key}})
	for name, tls := range map[string]nats.TLS{
		"no client certificate": {CAFile: s.CAFile()},
		"unknown authority":     {CertFile: cert, KeyFile: key},
		"missing file":          {CAFile: "/nowhere/ca.pem"},
	} {
		b := newBroker(t, nats.Config{URL: s.URL(), TLS: tls})
		if err := publishOne(t, b, event("e", "access.x", nil)); !relay.IsUnavailable(err) {
			t.Errorf("%s: %v, want unavailable", name, err)
		}
	}
}

// TestAccess_Permissions: what a user may not publish gets no reply from the
// server, and is told apart all the same, at once.
func TestAccess_Permissions(t *testing.T) {
	t.Parallel()
	s := testenv.StartNATS(t, testenv.NATSConfig{Extra: `authorization { users: [
		{ user: admin, password: a }
		{ user: part, password: p, permissions: { publish: ["ok", "$JS.API.>"], subscribe: ["_INBOX.>"] } }
		{ user: deaf, password: d, permissions: { publish: ">", subscribe: ["mine.>"] } }
	] }`})
	js := connect(t, "nats://admin:a@"+s.Addr())
	makeStream(t, js, jetstream.StreamConfig{Name: "ALL", Subjects: []string{"ok", "forbidden"}})

	b := newBroker(t, nats.Config{URL: "nats://part:p@" + s.Addr()})
	errs := b.Publish(t.Context(), []relay.Event{event("1", "ok", nil), event("2", "forbidden", nil), event("3", "ok", nil)})
	if errs[0] != nil || errs[2] != nil || !relay.IsUnavailable(errs[1]) || !errors.Is(errs[1], natsgo.ErrPermissionViolation) || relay.HintOf(errs[1]) == "" {
		t.Errorf("results %v, want the second unavailable with a hint", errs)
	}
	b = newBroker(t, nats.Config{URL: "nats://deaf:d@" + s.Addr()})
	if err := publishOne(t, b, event("4", "ok", nil)); !relay.IsUnavailable(err) || !strings.Contains(relay.HintOf(err), "inbox_prefix") {
		t.Errorf("user that may not subscribe to its inbox: %v (hint %q)", err, relay.HintOf(err))
	}
	b = newBroker(t, nats.Config{URL: "nats://deaf:d@" + s.Addr(), InboxPrefix: "mine"})
	if err := publishOne(t, b, event("5", "ok", nil)); err != nil {
		t.Error(err)
	}
}

// TestConnect_Silent: a server that accepts connections and says nothing holds a
// call no longer than its context.
func TestConnect_Silent(t *testing.T) {
	t.Parallel()
	proxy := testenv.Proxy(t, "127.0.0.1:1")
	proxy.Pause()
	b := newBroker(t, nats.Config{URL: "nats://" + proxy.Addr()})
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 3)
	for range 3 {
		go func() { results <- b.Publish(ctx, []relay.Event{event("e", "x", nil)})[0] }()
	}
	cancel()
	for range 3 {
		if err := <-results; err == nil || relay.IsPermanent(err) {
			t.Errorf("%v, want an error that is not the event's", err)
		}
	}
}

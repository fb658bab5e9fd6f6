//go:build unix

package testenv

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func connectNATS(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func stored(t *testing.T, nc *nats.Conn) uint64 {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "s", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", nil); err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

func TestStartNATS_KeepsStreamsOverCrashes(t *testing.T) {
	t.Parallel()
	n := StartNATS(t, NATSConfig{})
	for i, then := range []func(){func() { n.Kill(); n.Start() }, n.Restart, func() {}} {
		nc := connectNATS(t, n.URL(), nats.NoReconnect())
		if got := stored(t, nc); got != uint64(i+1) {
			t.Errorf("%d messages, want %d", got, i+1)
		}
		nc.Close()
		then()
	}
}

func TestStartNATS_AsksForLoginAndTLS(t *testing.T) {
	t.Parallel()
	n := StartNATS(t, NATSConfig{User: "u", Password: "p w", TLS: true, VerifyClients: true, MaxPayload: 4096})
	ca := nats.RootCAs(n.CAFile())
	nc := connectNATS(t, n.URL(), ca, nats.ClientCert(n.ClientCert()))
	if nc.MaxPayload() != 4096 {
		t.Errorf("max payload %d", nc.MaxPayload())
	}
	if _, err := nats.Connect(n.URL(), ca); err == nil {
		t.Error("connected without a client certificate")
	}
	if _, err := nats.Connect("tls://u:x@"+n.Addr(), ca, nats.ClientCert(n.ClientCert())); err == nil {
		t.Error("connected with a wrong password")
	}
}

func TestNATSServer_PauseAnswersNothing(t *testing.T) {
	t.Parallel()
	n := StartNATS(t, NATSConfig{})
	nc := connectNATS(t, n.URL())
	n.Pause()
	if err := nc.FlushTimeout(100 * time.Millisecond); err == nil {
		t.Error("a paused server answers")
	}
	n.Resume()
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		t.Errorf("after Resume: %v", err)
	}
}

func TestNATS_IsShared(t *testing.T) {
	t.Parallel()
	first, second := NATS(t), NATS(t)
	if first != second {
		t.Error("two shared servers")
	}
	if got := stored(t, connectNATS(t, NATS(t).URL())); got != 1 {
		t.Errorf("%d messages, want 1", got)
	}
}

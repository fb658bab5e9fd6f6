package testenv

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// FaultProxy forwards TCP connections to a server and breaks them on demand.
// Its methods may be called from several goroutines.
type FaultProxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced with every change of the faults
	closed  bool
	faults  faults
	conns   map[*proxied]struct{}
}

type faults struct {
	paused      bool          // forward nothing
	dropReplies bool          // forward requests, throw replies away
	refuse      bool          // close new connections at once
	delay       time.Duration // before each chunk, in both directions
}

// proxied is one connection through the proxy.
type proxied struct {
	client net.Conn
	server net.Conn // nil until it is dialed
	lost   bool     // replies were thrown away: it cannot be continued
}

// Proxy starts a proxy in front of target, a host:port, for this test.
func Proxy(t testing.TB, target string) *FaultProxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	p := &FaultProxy{target: target, listener: l, changed: make(chan struct{}), conns: map[*proxied]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is the proxy's host:port.
func (p *FaultProxy) Addr() string { return p.listener.Addr().String() }

// URL is serverURL with the proxy's host and port in place of the server's.
func (p *FaultProxy) URL(t testing.TB, serverURL string) string {
	t.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		t.Fatalf("server URL: %v", err)
	}
	u.Host = p.Addr()
	return u.String()
}

// Cut resets every open connection. New ones pass.
func (p *FaultProxy) Cut() { p.change(func(*faults) {}, func(*proxied) bool { return true }) }

// Refuse resets every open connection, and each new one at once, until Resume.
func (p *FaultProxy) Refuse() {
	p.change(func(f *faults) { f.refuse = true }, func(*proxied) bool { return true })
}

// Pause makes every connection half-open until Resume: new ones are accepted,
// nothing is forwarded, nothing is closed.
func (p *FaultProxy) Pause() { p.change(func(f *faults) { f.paused = true }, nil) }

// DropReplies lets requests through and throws the server's replies away until
// Resume, which resets the connections that lost some: a lost ack.
func (p *FaultProxy) DropReplies() { p.change(func(f *faults) { f.dropReplies = true }, nil) }

// SetDelay holds every chunk of up to 32 KiB back for d, in both directions.
// It stays until it is set to 0.
func (p *FaultProxy) SetDelay(d time.Duration) { p.change(func(f *faults) { f.delay = d }, nil) }

// Resume ends Refuse, Pause and DropReplies.
func (p *FaultProxy) Resume() {
	p.change(func(f *faults) { *f = faults{delay: f.delay} }, func(c *proxied) bool { return c.lost })
}

// Conns is the number of open connections.
func (p *FaultProxy) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func (p *FaultProxy) change(set func(*faults), cut func(*proxied) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	set(&p.faults)
	close(p.changed)
	p.changed = make(chan struct{})
	for c := range p.conns {
		if cut != nil && cut(c) {
			c.reset()
		}
	}
}

func (p *FaultProxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}

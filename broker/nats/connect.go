package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/postrider/postrider/relay"
)

// link is one client of nats.go with its inbox. It reconnects by itself; it is
// replaced only when nats.go gives it up, which it does when a server refuses
// the same credentials twice.
type link struct {
	nc   *natsgo.Conn
	acks acks
	// up is false from the loss of a connection until the next one stands.
	up atomic.Bool
	// why is the last error of the connection, for those who find it down.
	why atomic.Pointer[error]
	// wire is the socket of the moment.
	wire   atomic.Pointer[socket]
	cancel context.CancelFunc // ends dials and closes the socket
}

// connect returns the link, and makes it where there is none. One call dials at
// a time; those who waited for a dial that failed share its error, so that a
// server which does not answer costs each of them one timeout, not one after the
// other.
func (b *Broker) connect(ctx context.Context) (*link, error) {
	if b.isClosed() {
		return nil, relay.Unavailable(errClosed)
	}
	if l := b.link.Load(); l != nil {
		return l, l.state()
	}
	if ctx.Err() != nil {
		return nil, b.connectError(ctx, context.Cause(ctx))
	}
	select {
	case b.dialing <- struct{}{}:
		defer func() { <-b.dialing }()
	case <-b.closed:
		return nil, relay.Unavailable(errClosed)
	case <-ctx.Done():
		return nil, b.connectError(ctx, context.Cause(ctx))
	}
	if l := b.link.Load(); l != nil {
		return l, l.state()
	}
	l, err := b.dial(ctx)
	if err != nil {
		return nil, b.connectError(ctx, err)
	}
	b.link.Store(l)
	if l.nc.IsClosed() { // its handler may have run before the link was there
		b.link.CompareAndSwap(l, nil)
	}
	if b.isClosed() { // Close may have looked before the link was there
		l.close()
		return nil, relay.Unavailable(errClosed)
	}
	return l, l.state()
}

func (l *link) state() error {
	if l.up.Load() {
		return nil
	}
	err := errors.New("connect to nats: connection lost")
	if why := l.why.Load(); why != nil {
		err = fmt.Errorf("connect to nats: connection lost: %w", *why)
	}
	return relay.Unavailable(err)
}

func (b *Broker) connectError(ctx context.Context, err error) error {
	hint := ""
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, natsgo.ErrAuthorization), errors.Is(err, natsgo.ErrAuthExpired), errors.Is(err, natsgo.ErrAuthRevoked):
		hint = "check user, password, token, creds_file or nkey_file of the broker"
	case errors.Is(err, natsgo.ErrSecureConnRequired):
		hint = "the server wants TLS: use tls://, and tls.ca_file for a private authority"
	case errors.Is(err, natsgo.ErrNoServers):
		hint = "check that the server runs and that host and port in the broker's URL are right"
	}
	err = fmt.Errorf("connect to nats: %w", err)
	if hint != "" {
		err = relay.Hint(err, hint)
	}
	if errors.Is(err, context.Canceled) { // the caller's wish says nothing of the server
		return err
	}
	return relay.Unavailable(err)
}

// dial makes a client. ctx bounds the dial only.
func (b *Broker) dial(ctx context.Context) (*link, error) {
	addr, err := b.cfg.address()
	if err != nil {
		return nil, err
	}
	secrets, err := b.cfg.credentials(addr)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &link{cancel: cancel, acks: acks{calls: make(map[uint64]*call)}}
	opts := []natsgo.Option{
		natsgo.Name(b.cfg.Name),
		natsgo.Timeout(b.cfg.ConnectTimeout),
		natsgo.CustomInboxPrefix(b.cfg.InboxPrefix),
		natsgo.SetCustomDialer(l.dialer(life, b.cfg.ConnectTimeout)),
		natsgo.SkipHostLookup(), // the dialer looks up, within its context
		natsgo.PingInterval(b.cfg.PingInterval),
		natsgo.MaxPingsOutstanding(2),
		natsgo.MaxReconnects(-1),
		natsgo.CustomReconnectDelay(reconnectDelay),
		// While there is no connection a publish fails at once: what is kept
		// for the next one would be sent after its call has given it up.
		natsgo.ReconnectBufSize(-1),
		natsgo.DisconnectErrHandler(func(_ *natsgo.Conn, err error) { l.lost(b, err) }),
		natsgo.ReconnectHandler(func(*natsgo.Conn) { l.up.Store(true) }),
		natsgo.ErrorHandler(func(_ *natsgo.Conn, _ *natsgo.Subscription, err error) { l.refused(b, err) }),
		natsgo.ClosedHandler(func(*natsgo.Conn) { l.gone(b) }),
	}
	opts = append(append(opts, secrets...), b.cfg.tls()...)

	stop := context.AfterFunc(ctx, cancel)
	nc, err := natsgo.Connect(strings.Join(addr.servers, ","), opts...)
	if err != nil {
		stop()
		cancel()
		return nil, err
	}
	if !stop() { // ctx ended at the last moment, and the socket with it
		nc.Close()
		return nil, context.Cause(ctx)
	}
	l.nc = nc
	l.acks.inbox = nc.NewInbox()
	sub, err := nc.Subscribe(l.acks.inbox+".*", func(msg *natsgo.Msg) { l.acks.handle(b, l, msg) })
	if err == nil {
		// By default a client drops what it does not read quickly enough.
		err = sub.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = b.streams.createConfigured(ctx, b, nc)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	l.up.Store(nc.IsConnected())
	return l, nil
}

// reconnectDelay is the pause before a client's n-th round over all servers:
// 100 ms, doubling up to 5 s, of which a random half is left out, so that the
// clients of a restarted server do not come back in one instant.
func reconnectDelay(n int) time.Duration {
	d := min(100*time.Millisecond<<min(n, 10), 5*time.Second)
	return d/2 + rand.N(d/2)
}

// lost is called when a connection broke. Nothing that waits for an ack will get
// one: the server may or may not have stored it.
func (l *link) lost(b *Broker, err error) {
	if err == nil {
		err = natsgo.ErrConnectionClosed
	}
	l.up.Store(false)
	l.why.Store(&err)
	l.acks.fail(b, l, func(*relay.Event) bool { return true }, func(e *relay.Event) error {
		return fmt.Errorf("publish to nats, topic %q: connection lost before the ack: %w", e.Topic, err)
	})
}

// refused is called for what the server says apart from any reply. A publish
// without permission gets no other answer.
func (l *link) refused(b *Broker, err error) {
	if !errors.Is(err, natsgo.ErrPermissionViolation) {
		l.why.Store(&err)
		return
	}
	text := err.Error()
	_, quoted, _ := strings.Cut(text, `"`)
	subject, _, _ := strings.Cut(quoted, `"`)
	match := func(e *relay.Event) bool { return strings.EqualFold(e.Destination, subject) }
	hint := "allow the broker's user to publish the topic's subjects"
	if strings.Contains(strings.ToLower(text), "for subscription") {
		match = func(*relay.Event) bool { return true }
		hint = fmt.Sprintf("allow the broker's user to subscribe to %q, or set inbox_prefix", b.cfg.InboxPrefix+".>")
	}
	l.acks.fail(b, l, match, func(e *relay.Event) error {
		err := fmt.Errorf("publish to nats, topic %q: %w", e.Topic, natsgo.ErrPermissionViolation)
		return relay.Unavailable(relay.Hint(err, hint))
	})
}

// gone is called when nats.go gives a client up; the next call makes a new one.
func (l *link) gone(b *Broker) {
	l.up.Store(false)
	b.link.CompareAndSwap(l, nil)
	l.cancel()
}

// close cuts the socket first: nats.go closes under a lock that a blocked write
// may hold.
func (l *link) close() {
	l.up.Store(false)
	l.cancel()
	l.nc.Close()
}

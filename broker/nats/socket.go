package nats

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// A server that stops reading (paused, or behind a network that swallows
// packets) fills the socket's buffers, and then a write blocks, inside nats.go,
// under the lock that everything else of the client needs: publish, ping, close.
// The client's own remedy is a write deadline of a minute by default, after which
// it drops the bytes and goes on with the connection.
//
// Here the write in progress is known, and when a call's context ends while one
// hangs, the socket is closed: writers return at once, the events are of unknown
// fate, and the client connects anew.

// cutGrace is how long a write may take after a context has ended before it
// counts as hanging. A write into a socket that takes bytes takes microseconds.
const cutGrace = 50 * time.Millisecond

type socket struct {
	net.Conn
	writes  atomic.Int64
	writing atomic.Int64 // number of the write in progress, 0 for none
}

func (s *socket) Write(p []byte) (int, error) {
	s.writing.Store(s.writes.Add(1))
	defer s.writing.Store(0)
	return s.Conn.Write(p)
}

// cutAfter watches the link until the returned function is called.
func (l *link) cutAfter(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		s := l.wire.Load()
		if s == nil {
			return
		}
		n := s.writing.Load()
		if n == 0 {
			return
		}
		time.AfterFunc(cutGrace, func() {
			if s.writing.Load() == n {
				_ = s.Close()
			}
		})
	})
}

type dialer func(network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// dialer makes the sockets of a link, for its whole life: they are closed when
// life ends.
func (l *link) dialer(life context.Context, timeout time.Duration) dialer {
	return func(network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: timeout}
		conn, err := d.DialContext(life, network, address)
		if err != nil {
			return nil, err
		}
		s := &socket{Conn: conn}
		context.AfterFunc(life, func() { _ = s.Close() })
		l.wire.Store(s)
		return s, nil
	}
}

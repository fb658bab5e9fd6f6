package testenv

import (
	"errors"
	"net"
	"sync"
	"time"
)

func (p *FaultProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *FaultProxy) serve(client net.Conn) {
	c := &proxied{client: client}
	p.mu.Lock()
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
	}()
	if !p.pass(c, false, 0) { // a paused proxy accepts, and does not even dial
		c.reset()
		return
	}
	server, err := net.DialTimeout("tcp", p.target, grace)
	p.mu.Lock()
	c.server = server
	refused := p.closed || p.faults.refuse
	p.mu.Unlock()
	if err != nil || refused {
		c.reset()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(c, server, client, false) })
	both.Go(func() { p.pump(c, client, server, true) })
	both.Wait()
}

// pump forwards one direction until an end closes, then closes both: the
// protocols that pass here never half-close. It closes in good order, so that
// a server's last words still arrive.
func (p *FaultProxy) pump(c *proxied, to, from net.Conn, replies bool) {
	defer to.Close()   //nolint:errcheck // nothing to save
	defer from.Close() //nolint:errcheck // nothing to save
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pass(c, replies, n) {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits until the faults let a chunk of n bytes through, and reports
// whether to forward it.
func (p *FaultProxy) pass(c *proxied, replies bool, n int) bool {
	arrived := time.Now()
	for {
		p.mu.Lock()
		f, changed, closed := p.faults, p.changed, p.closed
		if replies && f.dropReplies && !f.paused && n > 0 {
			c.lost = true
			p.mu.Unlock()
			return false
		}
		p.mu.Unlock()
		if closed || f.refuse {
			return false
		}
		wait := f.delay - time.Since(arrived)
		if !f.paused && (wait <= 0 || n == 0) {
			return true
		}
		if f.paused {
			<-changed
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// reset closes both ends so that the peer sees a reset, as from a host that
// lost its state.
func (c *proxied) reset() {
	for _, conn := range []net.Conn{c.client, c.server} {
		if tcp, ok := conn.(*net.TCPConn); ok && tcp != nil {
			_ = tcp.SetLinger(0)
			_ = tcp.Close()
		}
	}
}

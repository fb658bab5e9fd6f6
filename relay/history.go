package relay

import "time"

// anotherServer is called when a fetch comes from another server, or from
// another history of the same one: a promoted standby, a restored file. Ids may
// have come back there with other events, so everything in memory is dropped;
// what is on its way is not settled. Then the store is opened again and the
// lease is taken anew.
func (p *pump) anotherServer(identity string) {
	p.log.Warn("another server: memory dropped", "was", p.server.Identity, "is", identity)
	p.reset()
	p.endTerm()
	p.seen = map[string]*seen{}
	p.opening = true
	p.reopenStore(backoff{base: 100 * time.Millisecond, cap: 5 * time.Second})
}

func (p *pump) reopenStore(b backoff) {
	p.spawn(func() func() {
		ctx, cancel := withTimeout(openTimeout)
		defer cancel()
		server, err := p.store.Open(ctx)
		if err != nil {
			sleep(p.callsCtx, b.next())
		}
		return func() {
			p.noteDatabase(err)
			if err != nil && !p.stopping {
				p.reopenStore(b)
				return
			}
			p.opening = false
			if err == nil {
				p.server = server
			}
		}
	})
}

// fail ends a Drain that cannot go on.
func (p *pump) fail(err error) {
	if p.fatal == nil {
		p.fatal = err
	}
}

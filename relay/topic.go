package relay

import (
	"strconv"
	"time"
)

// topic is what the pump knows of one topic of its database.
type topic struct {
	name       string
	route      *route       // nil: no route matches
	dest       *destination // nil if the destination varies within the topic
	unroutable bool         // an event without a route was met
}

// topicOf looks a topic up once.
func (p *pump) topicOf(name string) *topic {
	if t := p.topics[name]; t != nil {
		return t
	}
	t := &topic{name: name}
	for _, r := range p.r.routes {
		if r.matches(p.db.Name, name) {
			t.route = r
			break
		}
	}
	p.topics[name] = t
	if t.route == nil {
		p.log.Warn("no route", "topic", name, "hint", "add a route for the topic; its events wait")
		return t
	}
	if t.route.address.Static() {
		t.dest = p.destinationOf(t, &Row{Key: Key{Topic: name}})
		t.dest.fixed = true
	}
	return t
}

// destinationOf finds the destination of a row.
func (p *pump) destinationOf(t *topic, row *Row) *destination {
	if t.dest != nil {
		return t.dest
	}
	r := t.route
	broker := p.r.cfg.Brokers[r.Broker]
	name := ""
	if d, ok := broker.(Destinationer); ok {
		src := r.source(p.db.Name, row)
		// An address that cannot be made fails the event when it is sent.
		address, _ := r.address.Expand(&src, r.escaper)
		name = d.Destination(Event{Destination: address, Topic: row.Topic, Key: row.Key.Key})
	}
	id := r.Broker + "\x00" + name
	d := p.destinations[id]
	if d == nil {
		p.dropIdle()
		d = &destination{
			broker: broker, brokerName: r.Broker, name: name, id: id,
			outlet: p.outletOf(id, r.Broker, broker), suspects: map[suspectKey]*suspect{},
		}
		p.destinations[id] = d
	}
	if !r.address.Static() {
		d.dynamic = true
	}
	return d
}

func (p *pump) outletOf(id, brokerName string, broker Broker) *outlet {
	if mixes(broker) {
		id = brokerName
	}
	o := p.outlets[id]
	if o == nil {
		o = &outlet{broker: broker}
		p.outlets[id] = o
	}
	return o
}

// topicPaused reports whether a topic is left out of the fetch.
func (p *pump) topicPaused(t *topic) bool {
	if t.route == nil || p.operatorPaused("topic", t.name) {
		return true
	}
	return t.dest != nil && (t.dest.parked || p.blocked(t.dest))
}

// blocked reports whether nothing may be sent to a destination now.
func (p *pump) blocked(d *destination) bool {
	return d.paused() || p.operatorPaused("destination", d.name)
}

func (p *pump) operatorPaused(kind, name string) bool {
	if len(p.pausedByOperator) == 0 {
		return false
	}
	_, ok := p.pausedByOperator[[2]string{kind, name}]
	return ok
}

// without lists the topics that a fetch leaves out.
func (p *pump) without() []string {
	var out []string
	for name, t := range p.topics {
		if p.topicPaused(t) {
			out = append(out, name)
		}
	}
	for k := range p.pausedByOperator {
		if k[0] == "topic" && p.topics[k[1]] == nil {
			out = append(out, k[1])
		}
	}
	return out
}

// setPaused takes over what operators paused. What waits in memory of a topic
// that was paused just now is forgotten.
func (p *pump) setPaused(controls []Control) {
	if len(controls) == 0 && len(p.pausedByOperator) == 0 {
		return
	}
	now := make(map[[2]string]struct{}, len(controls))
	for _, c := range controls {
		now[[2]string{c.Kind, c.Name}] = struct{}{}
	}
	changed := len(now) != len(p.pausedByOperator)
	for k := range now {
		if _, ok := p.pausedByOperator[k]; !ok {
			changed = true
		}
	}
	if !changed {
		return
	}
	p.pausedByOperator = now
	p.change++
	p.again = true
	p.sweepKeys(time.Now())
	for _, d := range p.destinations {
		p.forgetPaused(d)
		p.activate(d)
	}
}

func (r *Row) identity() string {
	if r.Identity != "" {
		return r.Identity
	}
	return r.EventID.String()
}

// dedupID is the identity, with the generation behind it where there is one, so
// that a broker's de-duplication does not swallow a replay.
func (r *Row) dedupID(identity string) string {
	if r.Generation == 0 {
		return identity
	}
	return identity + "#" + strconv.Itoa(r.Generation)
}

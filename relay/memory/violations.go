package memory

import (
	"fmt"
	"slices"

	"github.com/postrider/postrider/relay"
)

// Violations returns what relays did against the rules of a Publish call:
//
//   - a key in two calls of one client at once: its order would be the
//     network's;
//   - an event twice in one call;
//   - a call without events;
//   - a call that mixes destinations of a broker that does not mix;
//   - an event without an identity or a dedup id.
//
// Two clients may well send one key at once: a relay that was paused beyond its
// lease does.
func (s *Server) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.violations)
}

// enter notes the keys of a call and records what is wrong with it.
func (b *Broker) enter(cfg ServerConfig, events []relay.Event) {
	var wrong []string
	note := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("client %d: ", b.client)+fmt.Sprintf(format, args...))
	}
	if len(events) == 0 {
		note("a call without events")
	}
	seen := map[string]bool{}
	keys := map[relay.Key]bool{}
	destinations := map[string]bool{}
	for _, e := range events {
		if e.Identity == "" || e.DedupID == "" {
			note("event of topic %q and key %q without an identity", e.Topic, e.Key)
		}
		if seen[e.Identity] {
			note("event %s twice in a call", e.Identity)
		}
		seen[e.Identity] = true
		if e.Key != "" {
			keys[relay.Key{Topic: e.Topic, Key: e.Key}] = true
		}
		if cfg.Destination != nil {
			destinations[cfg.Destination(e)] = true
		}
	}
	if len(destinations) > 1 && !cfg.Mixes {
		note("a call of %d destinations", len(destinations))
	}
	b.mu.Lock()
	for k := range keys {
		if b.flying[k]++; b.flying[k] > 1 {
			note("topic %q key %q in %d calls at once", k.Topic, k.Key, b.flying[k])
		}
	}
	b.mu.Unlock()

	b.Server.mu.Lock()
	defer b.Server.mu.Unlock()
	b.violations = append(b.violations, wrong...)
}

func (b *Broker) leave(events []relay.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	keys := map[relay.Key]bool{}
	for _, e := range events {
		keys[relay.Key{Topic: e.Topic, Key: e.Key}] = true
	}
	for k := range keys {
		if b.flying[k]--; b.flying[k] <= 0 {
			delete(b.flying, k)
		}
	}
}

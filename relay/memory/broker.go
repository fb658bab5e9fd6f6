package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider/relay"
)

// ServerConfig configures a [Server]. The zero value accepts everything at once
// and keeps it.
type ServerConfig struct {
	// Dedup is how long the server remembers dedup ids: an event that it has
	// seen is acknowledged and not kept again. Default 0: it does not.
	Dedup time.Duration
	// Verdict decides about each event before it is kept; an error refuses it
	// and is its result. It is called without a lock held and may be called
	// from several goroutines. Default: everything is accepted.
	Verdict func(relay.Event) error
	// PerCall and PerEvent are how long a call takes, and each event in it.
	PerCall, PerEvent time.Duration
	// Destination names what fails as one, see [relay.Destinationer]. Default:
	// the whole server.
	Destination func(relay.Event) string
	// Mixes says that a call may hold events of several destinations.
	Mixes bool
	// Escape makes a token of an address safe. Default: as it is.
	Escape func(string) string
}

// Server is what a broker's server keeps. Safe for concurrent use.
type Server struct {
	mu         sync.Mutex
	cfg        ServerConfig
	accepted   []Accepted
	seen       map[string]time.Time // by dedup id
	repeated   int
	clients    int
	violations []string
}

// Accepted is an event that the server took.
type Accepted struct {
	relay.Event
	At time.Time
	// Client is the number of the [Broker] it came from, from 1.
	Client int
}

// Broker is one client of a [Server].
type Broker struct {
	*Server
	client int

	mu     sync.Mutex
	closed bool
	flying map[relay.Key]int // keys in a call that is under way
}

var (
	_ relay.Broker        = (*Broker)(nil)
	_ relay.Destinationer = (*Broker)(nil)
	_ relay.Mixer         = (*Broker)(nil)
	_ relay.Addresser     = (*Broker)(nil)
	_ relay.Checker       = (*Broker)(nil)
)

// NewBroker makes an empty server and returns a client of it.
func NewBroker(cfg ServerConfig) *Broker {
	s := &Server{cfg: cfg, seen: map[string]time.Time{}}
	return s.Connect()
}

// Connect returns another client of the same server.
func (s *Server) Connect() *Broker {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients++
	return &Broker{Server: s, client: s.clients, flying: map[relay.Key]int{}}
}

// Configure changes the configuration; calls that are under way keep theirs.
func (s *Server) Configure(change func(*ServerConfig)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.cfg)
}

// Publish implements [relay.Broker]. It also checks what a relay owes to a
// broker, see [Server.Violations].
func (b *Broker) Publish(ctx context.Context, events []relay.Event) []error {
	cfg := b.config()
	b.enter(cfg, events)
	defer b.leave(events)

	results := make([]error, len(events))
	failed := map[string]bool{}
	if err := b.isClosed(); err != nil {
		for i := range results {
			results[i] = err
		}
		return results
	}
	err := pause(ctx, cfg.PerCall)
	for i, e := range events {
		switch {
		case e.Key != "" && failed[e.Key]:
			results[i] = relay.ErrHeld
			continue
		case err == nil:
			err = pause(ctx, cfg.PerEvent)
		}
		if results[i] = err; err == nil {
			results[i] = b.take(cfg, e)
		}
		failed[e.Key] = results[i] != nil
	}
	return results
}

// take lets the server decide about one event.
func (b *Broker) take(cfg ServerConfig, e relay.Event) error {
	if err := b.isClosed(); err != nil {
		return err
	}
	if cfg.Verdict != nil {
		if err := cfg.Verdict(e); err != nil {
			return err
		}
	}
	b.Server.mu.Lock()
	defer b.Server.mu.Unlock()
	now := time.Now()
	if at, ok := b.seen[e.DedupID]; ok && now.Sub(at) < cfg.Dedup {
		b.repeated++
		return nil
	}
	b.seen[e.DedupID] = now
	e.Payload, e.Headers = slices.Clone(e.Payload), maps.Clone(e.Headers)
	b.accepted = append(b.accepted, Accepted{e, now, b.client})
	return nil
}

func (b *Broker) isClosed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return relay.Unavailable(errors.New("memory broker is closed"))
	}
	return nil
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish to memory: %w", err)
	}
	return nil
}

// Close implements [relay.Broker].
func (b *Broker) Close(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// Destination implements [relay.Destinationer].
func (b *Broker) Destination(e relay.Event) string {
	if f := b.config().Destination; f != nil {
		return f(e)
	}
	return ""
}

// MixesDestinations implements [relay.Mixer].
func (b *Broker) MixesDestinations() bool { return b.config().Mixes }

// EscapeToken implements [relay.Addresser].
func (b *Broker) EscapeToken(token string) string {
	if f := b.config().Escape; f != nil {
		return f(token)
	}
	return token
}

// Check implements [relay.Checker].
func (b *Broker) Check(context.Context) ([]relay.Finding, error) {
	return []relay.Finding{{Problem: "events are kept in memory only", Hint: "use this broker in tests"}}, nil
}

func (s *Server) config() ServerConfig {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// Log returns what the server accepted, in order.
func (s *Server) Log() []Accepted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.accepted)
}

// At returns what the server accepted for one destination name, in order.
func (s *Server) At(destination string) []Accepted {
	return slices.DeleteFunc(s.Log(), func(a Accepted) bool { return a.Event.Destination != destination })
}

// Repeated returns how many events were acknowledged because their dedup id was
// known.
func (s *Server) Repeated() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repeated
}

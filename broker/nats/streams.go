package nats

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/postrider/postrider/relay"
)

// maxCreated bounds the streams that are made without being named: a template
// that begins with the key would make one per key.
const maxCreated = 64

// errSubjectsOverlap is JetStream's code for a stream whose subjects another one
// takes already.
const errSubjectsOverlap = 10065

// streams knows which streams there are, from acks and from making them.
type streams struct {
	mu   sync.Mutex
	seen map[string]bool // streams that have acknowledged something
	last []byte          // name of the last one, so that most acks look up nothing
	have map[string]bool // first tokens of subjects that a stream takes
	made int
	gone bool // the configured stream was removed
}

// maxHave bounds have: with a template that begins with the key and a stream
// that takes everything, each key is a token.
const maxHave = 10_000

// note remembers the stream of an ack. rest is the ack from its name on.
func (s *streams) note(rest []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.last); n > 0 && len(rest) > n && rest[n] == '"' && bytes.Equal(rest[:n], s.last) {
		return
	}
	name, _, ok := bytes.Cut(rest, []byte{'"'})
	if !ok {
		return
	}
	s.last = append(s.last[:0], name...)
	if s.seen == nil {
		s.seen = make(map[string]bool)
	}
	s.seen[string(name)] = true
}

func (s *streams) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.seen))
}

// createConfigured makes the stream that the configuration names.
func (s *streams) createConfigured(ctx context.Context, b *Broker, nc *natsgo.Conn) error {
	if !b.cfg.CreateStream || len(b.cfg.Stream.Subjects) == 0 {
		return nil
	}
	js, err := b.jetstream(nc)
	if err != nil {
		return err
	}
	return b.create(ctx, js, b.cfg.Stream.Name, b.cfg.Stream.Subjects)
}

// ensure makes, where no stream is configured by its subjects, one for each first
// token of the call's subjects that no stream takes. A failure is that of the
// events with this token.
func (s *streams) ensure(ctx context.Context, b *Broker, l *link, c *call) {
	if len(b.cfg.Stream.Subjects) > 0 {
		s.remake(ctx, b, l)
		return
	}
	s.mu.Lock()
	missing := make(map[string]string) // first token: one subject of it
	last := ""
	for i := range c.events {
		token, _, _ := strings.Cut(c.events[i].Destination, ".")
		if token == last {
			continue
		}
		last = token
		if !s.have[token] && checkSubject(c.events[i].Destination, 0) == nil {
			missing[token] = c.events[i].Destination
		}
	}
	s.mu.Unlock()
	for token, subject := range missing {
		err := s.ensureToken(ctx, b, l, token, subject)
		if err == nil {
			continue
		}
		err = relay.Unavailable(relay.Hint(fmt.Errorf("create nats stream %q: %w", token, err),
			"create a stream for the topic yourself, or give the broker the options stream and subjects"))
		for _, i := range c.heads {
			if t, _, _ := strings.Cut(c.events[i].Destination, "."); t == token {
				c.refuse(i, err)
			}
		}
	}
}

func (s *streams) ensureToken(ctx context.Context, b *Broker, l *link, token, subject string) error {
	js, err := b.jetstream(l.nc)
	if err != nil {
		return err
	}
	if _, err = js.StreamNameBySubject(ctx, subject); errors.Is(err, jetstream.ErrStreamNotFound) {
		if !s.mayMake() {
			return fmt.Errorf("more than %d streams", maxCreated)
		}
		err = b.create(ctx, js, token, []string{token, token + ".>"})
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.have == nil || len(s.have) >= maxHave {
		s.have = make(map[string]bool)
	}
	s.have[token] = true
	return nil
}

// mayMake counts the streams that are made.
func (s *streams) mayMake() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made >= maxCreated {
		return false
	}
	s.made++
	return true
}

// miss notes that no stream answered for a subject: the one that took it was
// removed, and the next call makes it again.
func (s *streams) miss(subject string) {
	token, _, _ := strings.Cut(subject, ".")
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.have, token)
	s.gone = true
}

// remake makes the configured stream again if it was removed. Where that fails
// the events say that no stream answers.
func (s *streams) remake(ctx context.Context, b *Broker, l *link) {
	s.mu.Lock()
	gone := s.gone
	s.gone = false
	s.mu.Unlock()
	if gone {
		_ = s.createConfigured(ctx, b, l.nc)
	}
}

// create makes a stream. One of that name, or one that takes the subjects, is
// left as it is.
func (b *Broker) create(ctx context.Context, js jetstream.JetStream, name string, subjects []string) error {
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:       name,
		Subjects:   subjects,
		Storage:    jetstream.FileStorage,
		Discard:    jetstream.DiscardNew,
		Replicas:   b.cfg.Stream.Replicas,
		Duplicates: b.cfg.Stream.DuplicateWindow,
		MaxAge:     b.cfg.Stream.MaxAge,
	})
	var api *jetstream.APIError
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.As(err, &api) && api.ErrorCode == errSubjectsOverlap {
		return nil
	}
	return err
}

func (b *Broker) jetstream(nc *natsgo.Conn) (jetstream.JetStream, error) {
	if b.cfg.Domain != "" {
		return jetstream.NewWithDomain(nc, b.cfg.Domain)
	}
	return jetstream.New(nc)
}

// refuse decides an unsent event, and with it its key. It runs before the call
// is known to the acks, so nothing else touches it.
func (c *call) refuse(i int32, err error) {
	if c.state[i].Swap(decided) == decided {
		return
	}
	c.settle(i, err)
	c.hold(i)
}

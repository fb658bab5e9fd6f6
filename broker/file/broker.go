package file

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/postrider/postrider/relay"
)

// Broker appends events to one file, or writes them to a writer. It implements
// [relay.Broker] and the optional Destinationer and Checker. Safe for concurrent
// use; calls take turns.
type Broker struct {
	cfg    Config
	closed atomic.Bool

	// turn is held by the call that writes. A channel, so that who waits for it
	// can stop waiting.
	turn chan struct{}
	log  *log // of a file; nil until the first call, and after Close
	buf  []byte
	ends []int // where the line of each event ends in buf
	torn bool  // the writer has half a line

	mu sync.Mutex // guards log against Close
}

var (
	_ relay.Broker        = (*Broker)(nil)
	_ relay.Destinationer = (*Broker)(nil)
	_ relay.Checker       = (*Broker)(nil)
)

var errClosed = errors.New("file broker: closed")

// New returns a broker. The file is opened by the first Publish or Check.
func New(cfg Config) (*Broker, error) {
	if cfg.Mode == 0 {
		cfg.Mode = 0o600
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Broker{cfg: cfg, turn: make(chan struct{}, 1)}, nil
}

// Publish implements [relay.Broker]. The lines of a call are written at once and
// in slice order, which is also the order of each key. They are accepted or
// refused together, but for a writer that took a part of them.
func (b *Broker) Publish(ctx context.Context, events []relay.Event) []error {
	errs := make([]error, len(events))
	if len(events) == 0 {
		return errs
	}
	n, err := b.publish(ctx, events)
	if err == nil {
		return errs
	}
	failed := map[string]bool{}
	for i := n; i < len(errs); i++ {
		errs[i] = err
		if key := events[i].Key; n > 0 && key != "" {
			if failed[key] {
				errs[i] = relay.ErrHeld
			}
			failed[key] = true
		}
	}
	return errs
}

// publish returns how many events were accepted, and why not the others.
func (b *Broker) publish(ctx context.Context, events []relay.Event) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("publish to file: %w", context.Cause(ctx))
	}
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return 0, fmt.Errorf("publish to file: %w", context.Cause(ctx))
	}
	if b.closed.Load() {
		return 0, relay.Unavailable(errClosed)
	}
	b.buf, b.ends = b.buf[:0], b.ends[:0]
	if b.torn {
		b.buf = append(b.buf, '\n')
	}
	for i := range events {
		b.buf = appendLine(b.buf, &events[i])
		b.ends = append(b.ends, len(b.buf))
	}
	defer b.shrink()
	if b.cfg.Writer != nil {
		return b.write()
	}
	return b.appendFile(len(events))
}

// write hands the lines to the writer. Lines that it took whole are accepted,
// also when it failed in a later one.
func (b *Broker) write() (int, error) {
	n, err := b.cfg.Writer.Write(b.buf)
	if err == nil {
		b.torn = false
		return len(b.ends), nil
	}
	if n > 0 {
		b.torn = b.buf[n-1] != '\n'
	}
	taken := 0
	for taken < len(b.ends) && b.ends[taken] <= n {
		taken++
	}
	return taken, relay.Unavailable(fmt.Errorf("write event: %w", err))
}

func (b *Broker) appendFile(n int) (int, error) {
	log, err := b.open()
	if err == nil {
		err = log.append(b.buf, !b.cfg.NoSync)
	}
	if err != nil {
		return 0, relay.Unavailable(relay.Hint(fmt.Errorf("append to file %s: %w", b.cfg.Path, err), hintFor(err)))
	}
	return n, nil
}

// open returns the file of the moment: one that was renamed or removed, as log
// rotation does, is left, and its path opened anew.
func (b *Broker) open() (*log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.Load() {
		return nil, errClosed
	}
	if b.log != nil && !b.log.current() {
		_ = b.log.close()
		b.log = nil
	}
	if b.log == nil {
		log, err := openLog(b.cfg.Path, b.cfg.Mode)
		if err != nil {
			return nil, err
		}
		b.log = log
	}
	return b.log, nil
}

// shrink lets go of a buffer that one large call has grown.
func (b *Broker) shrink() {
	if cap(b.buf) > 4<<20 {
		b.buf = nil
	}
}

// Destination implements [relay.Destinationer]: everything goes to the one file.
func (b *Broker) Destination(relay.Event) string {
	if b.cfg.Writer != nil {
		return "writer"
	}
	return b.cfg.Path
}

// Check implements [relay.Checker].
func (b *Broker) Check(context.Context) ([]relay.Finding, error) {
	if b.cfg.Writer != nil {
		return []relay.Finding{{
			Problem: "events are written to a stream: nobody answers for what is behind it",
			Hint:    "use stdout: for trying things out, and a broker that stores for anything else",
		}}, nil
	}
	if _, err := b.open(); err != nil {
		return nil, relay.Unavailable(relay.Hint(fmt.Errorf("open file %s: %w", b.cfg.Path, err), hintFor(err)))
	}
	if b.cfg.NoSync {
		return []relay.Finding{{
			Problem: fmt.Sprintf("file %s is not synced: a crash of the machine loses accepted events", b.cfg.Path),
			Hint:    "leave the option sync at true",
		}}, nil
	}
	return nil, nil
}

// Close implements [relay.Broker]. A write that is under way fails or ends by
// itself; what it wrote in part is ended by the next writer.
func (b *Broker) Close(context.Context) error {
	if b.closed.Swap(true) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.log != nil {
		err := b.log.close()
		b.log = nil
		return err
	}
	return nil
}

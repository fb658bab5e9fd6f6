package file_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/broker/brokertest"
	"github.com/postrider/postrider/broker/file"
	"github.com/postrider/postrider/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var caps = brokertest.Caps{Ordered: true, Headers: true, Tombstones: true}

func TestBroker(t *testing.T) {
	brokertest.Run(t, brokertest.Harness{New: newTarget, Caps: caps, Unreachable: func(t testing.TB) relay.Broker {
		return newBroker(t, file.Config{Path: filepath.Join(t.TempDir(), "missing", "events.jsonl")})
	}})
}

func TestWriter(t *testing.T) {
	brokertest.Run(t, brokertest.Harness{Caps: caps, New: func(t testing.TB) *brokertest.Target {
		var out lockedBuffer
		return &brokertest.Target{
			Broker:      newBroker(t, file.Config{Writer: &out}),
			Destination: "writer",
			Read:        func(t testing.TB) []brokertest.Received { return parse(t, out.bytes()) },
		}
	}})
}

func BenchmarkPublish(b *testing.B) { brokertest.Bench(b, brokertest.Harness{New: newTarget}) }

func newTarget(t testing.TB) *brokertest.Target {
	path := filepath.Join(t.TempDir(), "events.jsonl")
	return &brokertest.Target{
		Broker:      newBroker(t, file.Config{Path: path}),
		Destination: path,
		Read:        func(t testing.TB) []brokertest.Received { return readFile(t, path) },
	}
}

func newBroker(t testing.TB, cfg file.Config) *file.Broker {
	t.Helper()
	b, err := file.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	return b
}

func readFile(t testing.TB, path string) []brokertest.Received {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return parse(t, content)
}

func parse(t testing.TB, content []byte) (out []brokertest.Received) {
	t.Helper()
	for line := range bytes.Lines(content) {
		l, err := file.ParseLine(line)
		if err != nil {
			t.Fatalf("line %.80q: %v", line, err)
		}
		id := l.DedupID
		if id == "" {
			id = l.Identity
		}
		out = append(out, brokertest.Received{ID: id, Headers: l.Headers, ContentType: l.ContentType, Payload: l.Body()})
	}
	return out
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.b.Bytes())
}

//go:build unix

package file_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/broker/file"
	"github.com/postrider/postrider/relay"
)

func event(i int, payload string) relay.Event {
	id := fmt.Sprint("e", i)
	return relay.Event{Identity: id, DedupID: id, Topic: "t", Destination: "t", Key: "k", Payload: []byte(payload)}
}

// TestFullDisk fills a disk of its own (a size limit on the process stands for
// it): the broken write leaves no half line, and what follows is whole.
func TestFullDisk(t *testing.T) {
	const limit = 64 << 10
	if path := os.Getenv("POSTRIDER_TEST_FULL_DISK"); path != "" {
		fillDisk(t, path, limit)
		return
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	// A file size limit can be set for this process's child only, before it
	// runs; the shell counts it in blocks of 512 or 1,024 bytes.
	cmd := exec.Command("sh", "-c", `ulimit -f 64; exec "$0" -test.run '^TestFullDisk$'`, os.Args[0])
	cmd.Env = append(os.Environ(), "POSTRIDER_TEST_FULL_DISK="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(readFile(t, path)); n != 2 {
		t.Errorf("%d lines, want the small events before and after the large one:\n%.300s", n, content)
	}
}

func fillDisk(t *testing.T, path string, limit int) {
	b := newBroker(t, file.Config{Path: path})
	publish := func(events ...relay.Event) []error { return b.Publish(t.Context(), events) }
	if err := publish(event(1, "small"))[0]; err != nil {
		t.Fatal(err)
	}
	for i, err := range publish(event(2, "small"), event(3, strings.Repeat("x", 2*limit))) {
		if !relay.IsUnavailable(err) {
			t.Errorf("event %d of a call that does not fit: %v, want unavailable", i, err)
		}
	}
	if err := publish(event(4, "small"))[0]; err != nil {
		t.Error(err)
	}
}

// TestTornLine: half a line of a killed process does not swallow the next one.
func TestTornLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, []byte(`{"identity":"e1"}`+"\n"+`{"ident`), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBroker(t, file.Config{Path: path})
	if err := b.Publish(t.Context(), []relay.Event{event(2, "x")})[0]; err != nil {
		t.Fatal(err)
	}
	content, _ := os.ReadFile(path)
	lines := bytes.Split(bytes.TrimSpace(content), []byte("\n"))
	if len(lines) != 3 {
		t.Fatalf("%d lines, want 3:\n%s", len(lines), content)
	}
	if l, err := file.ParseLine(lines[2]); err != nil || l.Identity != "e2" {
		t.Errorf("line behind the torn one %q: %v", lines[2], err)
	}
}

// TestRotation: after a rename the next events go to a new file.
func TestRotation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "events.jsonl")
	b := newBroker(t, file.Config{Path: path})
	for i, rotate := range []func() error{
		func() error { return os.Rename(path, path+".1") },
		func() error { return os.Remove(path) },
		func() error { return os.Truncate(path, 0) },
	} {
		if err := b.Publish(t.Context(), []relay.Event{event(i, "x")})[0]; err != nil {
			t.Fatal(err)
		}
		if err := rotate(); err != nil {
			t.Fatal(err)
		}
		if err := b.Publish(t.Context(), []relay.Event{event(100+i, "x")})[0]; err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, path); len(got) != 1 && i != 2 || got[len(got)-1].ID != fmt.Sprint("e", 100+i) {
			t.Errorf("round %d: %v after the rotation", i, got)
		}
	}
	if got := readFile(t, path+".1"); len(got) != 1 || got[0].ID != "e0" {
		t.Errorf("rotated file holds %v, want e0", got)
	}
}

// halfWriter takes a part of each write.
type halfWriter struct {
	bytes.Buffer
	takes int
}

func (w *halfWriter) Write(p []byte) (int, error) {
	if w.takes < len(p) {
		n, _ := w.Buffer.Write(p[:w.takes])
		return n, errors.New("no room")
	}
	return w.Buffer.Write(p)
}

func TestWriterTakesAPart(t *testing.T) {
	t.Parallel()
	w := &halfWriter{takes: 130}
	b := newBroker(t, file.Config{Writer: w})
	events := []relay.Event{event(1, "x"), event(2, "x"), event(3, "x"), event(4, "x")}
	errs := b.Publish(t.Context(), events)
	if errs[0] != nil || errs[1] != nil || !relay.IsUnavailable(errs[2]) || !errors.Is(errs[3], relay.ErrHeld) {
		t.Fatalf("results %v, want two accepted, one unavailable, one held", errs)
	}
	w.takes = 1 << 20
	for _, err := range b.Publish(t.Context(), events[2:]) {
		if err != nil {
			t.Error(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(w.String()), "\n")
	if len(lines) != 5 || !strings.Contains(lines[3], `"e3"`) || !strings.Contains(lines[4], `"e4"`) {
		t.Errorf("lines %q, want a torn one between e2 and e3", lines)
	}
}

package wire_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/wire"
)

var update = flag.Bool("update", false, "rewrite what the golden files want")

const (
	inputMark = "-- input --\n"
	wantMark  = "-- want --\n"
)

// TestGolden encodes the input of each file in testdata and compares with what it
// wants; -update rewrites that.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("golden files: %d, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".golden"), func(t *testing.T) {
			t.Parallel()
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(strings.TrimPrefix(string(content), inputMark), wantMark)
			got := encodeInput(t, input)
			if *update {
				if err := os.WriteFile(file, []byte(inputMark+input+wantMark+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func encodeInput(t *testing.T, input string) string {
	t.Helper()
	var in struct {
		Format, Source string
		Event          struct {
			Identity, Database, Topic, Key, Type, ContentType string
			SchemaVersion, Generation                         int
			Payload                                           *string
			PayloadBytes                                      []byte
			Headers                                           map[string]string
			Created                                           time.Time
		}
	}
	dec := json.NewDecoder(strings.NewReader(input))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		t.Fatal(err)
	}
	e := wire.Event{
		Identity: in.Event.Identity, Database: in.Event.Database, Topic: in.Event.Topic, Key: in.Event.Key,
		Type: in.Event.Type, ContentType: in.Event.ContentType, SchemaVersion: in.Event.SchemaVersion,
		Generation: in.Event.Generation, Payload: in.Event.PayloadBytes, Headers: in.Event.Headers, Created: in.Event.Created,
	}
	if in.Event.Payload != nil {
		e.Payload = []byte(*in.Event.Payload)
	}
	enc, err := wire.New(in.Format, in.Source)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	m, err := enc.Encode(&e)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		fmt.Fprintf(&b, "%s: %s\n", name, m.Headers[name])
	}
	fmt.Fprintf(&b, "content type: %q\n", m.ContentType)
	if m.Payload == nil {
		b.WriteString("tombstone\n")
	} else {
		fmt.Fprintf(&b, "payload of %d bytes: %s\n", len(m.Payload), printable(m.Payload))
	}
	return b.String()
}

func printable(p []byte) string {
	for _, c := range p {
		if c < ' ' || c > '~' {
			return fmt.Sprintf("%q", p)
		}
	}
	return string(p)
}

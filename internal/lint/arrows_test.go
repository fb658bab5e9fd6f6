package lint

import (
	"slices"
	"strings"
	"testing"
)

// arrows are the allowed imports: cmd → admin, consumer, store/*, broker/* → relay →
// outbox. For each part, the parts that it must not reach, directly or not.
var arrows = []struct {
	from   string
	never  []string
	reason string
}{
	{"outbox", []string{"relay", "wire", "store", "broker", "consumer", "admin", "internal", "cmd"}, "applications import outbox alone"},
	{"relay", []string{"store", "broker", "consumer", "admin", "internal/testenv", "cmd"}, "the engine knows stores and brokers by their interfaces"},
	{"wire", []string{"store", "broker", "consumer", "admin", "cmd"}, "what is on the wire depends on no broker"},
	{"store", []string{"broker", "consumer", "admin", "cmd"}, "a store knows no broker"},
	{"broker", []string{"store", "consumer", "admin", "cmd"}, "a broker knows no store"},
	{"consumer", []string{"store", "broker", "admin", "cmd"}, "a consumer knows no store and no broker of the relay"},
	{"admin", []string{"store", "broker", "consumer", "cmd"}, "pages show any store and broker"},
}

func TestArrows_PointDownwardsOnly(t *testing.T) {
	for _, p := range packages(t) {
		for _, arrow := range arrows {
			if !under(p.path(), arrow.from) || suite(p.path()) {
				continue
			}
			for _, dep := range ours(p) {
				for _, never := range arrow.never {
					if under(dep, never) {
						t.Errorf("%s reaches %s: %s", p.path(), dep, arrow.reason)
					}
				}
			}
		}
	}
}

func TestArrows_SiblingsDoNotImportEachOther(t *testing.T) {
	for _, p := range packages(t) {
		for _, kind := range []string{"store", "broker"} {
			if !under(p.path(), kind) || suite(p.path()) {
				continue
			}
			for _, dep := range ours(p) {
				if under(dep, kind) && sibling(dep) != sibling(p.path()) {
					t.Errorf("%s reaches its sibling %s", p.path(), dep)
				}
			}
		}
	}
}

func TestArrows_TestServersAreForTests(t *testing.T) {
	for _, p := range packages(t) {
		if suite(p.path()) || under(p.path(), "internal") {
			continue
		}
		if slices.Contains(ours(p), "internal/testenv") {
			t.Errorf("%s reaches internal/testenv outside of its tests", p.path())
		}
	}
}

// An application that embeds the relay must not have these forced on it.
func TestArrows_HeavyLibrariesStayInTheirModules(t *testing.T) {
	heavy := map[string][]string{ // library → who may use it
		"google.golang.org/grpc":             {"broker/pubsub", "cmd"},
		"cloud.google.com/go":                {"broker/pubsub", "cmd"},
		"github.com/aws/aws-sdk-go-v2":       {"broker/aws", "cmd"},
		"github.com/spf13/cobra":             {"cmd"},
		"github.com/knadh/koanf":             {"cmd"},
		"github.com/pressly/goose":           {"cmd"},
		"github.com/nats-io/nats-server":     {"cmd"},
		"go.opentelemetry.io/otel/sdk":       {"cmd"},
		"github.com/testcontainers":          nil,
		"github.com/docker/docker":           nil,
		"github.com/mattn/go-sqlite3":        nil,
		"github.com/confluentinc/confluent-": nil,
	}
	for _, p := range packages(t) {
		if under(p.path(), "examples") || under(p.path(), "bench") || suite(p.path()) {
			continue
		}
		for _, dep := range p.Deps {
			for library, users := range heavy {
				if strings.HasPrefix(dep, library) && !slices.ContainsFunc(users, func(u string) bool { return under(p.path(), u) }) {
					t.Errorf("%s reaches %s", p.path(), dep)
				}
			}
		}
	}
}

// ours are p's dependencies in this repository, below the root.
func ours(p pkg) []string {
	var paths []string
	for _, dep := range p.Deps {
		if rest, ok := strings.CutPrefix(dep, root+"/"); ok {
			paths = append(paths, rest)
		}
	}
	return paths
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// suite reports a package of tests for others to run.
func suite(path string) bool { return strings.HasSuffix(path, "test") }

// sibling is the adapter that a package belongs to: "broker/nats/x" →
// "broker/nats", and "broker/aws/sns" → itself, as SNS and SQS are two.
func sibling(path string) string {
	parts := strings.Split(path, "/")
	depth := 2
	if strings.HasPrefix(path, "broker/aws/") {
		depth = 3
	}
	return strings.Join(parts[:min(depth, len(parts))], "/")
}

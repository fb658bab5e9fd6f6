//go:build linux

package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// folderVariable tells the tests where this process builds the binary.
const folderVariable = "POSTRIDER_CHAOS_FOLDER"

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "postrider-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := os.Setenv(folderVariable, folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(folder)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// binary builds the program once per test process, without the race detector:
// that finds races in the tests of the packages, and here it would slow down the
// relays until nothing happens at the same time any more.
var binary = sync.OnceValues(func() (string, error) {
	file := filepath.Join(os.Getenv(folderVariable), "postrider")
	out, err := exec.Command("go", "build", "-o", file, "github.com/postrider/postrider/cmd/postrider").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build postrider: %w\n%s", err, out)
	}
	return file, nil
})

// postrider runs a command of the program to its end and returns what it
// printed.
func postrider(t testing.TB, args ...string) string {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file, args...)
	cmd.Env = append(os.Environ(), "POSTRIDER_ADMIN__LISTEN=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("postrider %v: %v\n%s", args[0], err, out)
	}
	return string(out)
}

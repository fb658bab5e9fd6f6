// Command postrider relays the events of a transactional outbox to a message
// broker, and shows what it does.
//
// There is one file per subcommand. plugins.go is the one list of databases and
// brokers; internal/config reads the configuration.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// postgresHint says what to do about an error of a PostgreSQL server, or "".
func postgresHint(_ string, err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "28P01", "28000":
			return "check the user and the password in the URL, and the server's pg_hba.conf"
		case "3D000":
			return "create the database, or correct its name in the URL"
		case "42P01":
			return `run "postrider migrate up", or name the tables with --schema, --table and --prefix`
		case "42501":
			return `grant the rights: "postrider grants" prints them; "migrate" and "bench" need a role that may create tables`
		case "3F000":
			return "create the schema, or name another with --schema"
		case "25006":
			return "this server is a standby: connect to the primary"
		case "53300":
			return "the server has no connection left"
		}
		return ""
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return "check that the server runs and that host and port are right"
	}
	return ""
}

// sqliteHint says what to do about an error of a SQLite file, or "".
func sqliteHint(text string, err error) string {
	file := sqliteFile(text)
	switch _, statErr := os.Stat(file); {
	case errors.Is(statErr, fs.ErrNotExist):
		if _, dirErr := os.Stat(filepath.Dir(file)); dirErr != nil {
			return "there is no folder " + filepath.Dir(file)
		}
		return `there is no such file: run "postrider migrate up" to make it, or correct its name`
	case strings.Contains(err.Error(), "not a database"):
		return "the file is no SQLite database"
	case strings.Contains(err.Error(), "no such table"):
		return `run "postrider migrate up", or name the tables with --table and --prefix`
	case strings.Contains(err.Error(), "readonly"):
		return "the file, or the folder that it lies in, cannot be written to"
	}
	return ""
}

package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3/database"

	"github.com/postrider/postrider/outbox"
)

// record is goose's list of applied versions, in a table of our own shape: goose's
// lets two runs record the same version, and its names are not quoted.
type record struct {
	dialect outbox.Dialect
	names   outbox.Names
}

var _ database.Store = (*record)(nil)

func (r *record) sql(text string) string {
	text = r.names.Expand(r.dialect, text)
	if r.dialect == outbox.SQLite {
		return sqliteParams(text)
	}
	return text
}

// Tablename is only for goose's messages.
func (r *record) Tablename() string { return r.names.Prefix + "_schema" }

// CreateVersionTable makes the table. IF NOT EXISTS: the other of two runs that
// began together may have made it.
func (r *record) CreateVersionTable(ctx context.Context, db database.DBTxConn) error {
	moment := "timestamptz NOT NULL DEFAULT clock_timestamp()"
	if r.dialect == outbox.SQLite {
		moment = "TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP"
	}
	_, err := db.ExecContext(ctx, r.sql(
		"CREATE TABLE IF NOT EXISTS {{outbox_schema}} (version bigint PRIMARY KEY, applied_at "+moment+")"))
	return err
}

// Insert records a version in the migration's transaction. A second record of
// the same version fails, and takes the second run of the migration with it;
// version 0 stands for the empty table, which both of two runs may record.
func (r *record) Insert(ctx context.Context, db database.DBTxConn, req database.InsertRequest) error {
	query := "INSERT INTO {{outbox_schema}} (version) VALUES ($1)"
	if req.Version == 0 {
		query += " ON CONFLICT DO NOTHING"
	}
	_, err := db.ExecContext(ctx, r.sql(query), req.Version)
	return err
}

func (r *record) Delete(ctx context.Context, db database.DBTxConn, version int64) error {
	_, err := db.ExecContext(ctx, r.sql("DELETE FROM {{outbox_schema}} WHERE version = $1"), version)
	return err
}

func (r *record) GetMigration(ctx context.Context, db database.DBTxConn, version int64) (*database.GetMigrationResult, error) {
	var n int64
	err := db.QueryRowContext(ctx, r.sql("SELECT version FROM {{outbox_schema}} WHERE version = $1"), version).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, database.ErrVersionNotFound
	}
	if err != nil {
		return nil, err
	}
	// When it was applied is for people who read the table; goose shows it only
	// in a status of its own.
	return &database.GetMigrationResult{Timestamp: time.Time{}, IsApplied: true}, nil
}

func (r *record) GetLatestVersion(ctx context.Context, db database.DBTxConn) (int64, error) {
	var latest sql.NullInt64
	err := db.QueryRowContext(ctx, r.sql("SELECT max(version) FROM {{outbox_schema}}")).Scan(&latest)
	if err != nil {
		return 0, err
	}
	if !latest.Valid {
		return 0, database.ErrVersionNotFound
	}
	return latest.Int64, nil
}

func (r *record) ListMigrations(ctx context.Context, db database.DBTxConn) (_ []*database.ListMigrationsResult, err error) {
	rows, err := db.QueryContext(ctx, r.sql("SELECT version FROM {{outbox_schema}} ORDER BY version DESC"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var list []*database.ListMigrationsResult
	for rows.Next() {
		applied := &database.ListMigrationsResult{IsApplied: true}
		if err := rows.Scan(&applied.Version); err != nil {
			return nil, err
		}
		list = append(list, applied)
	}
	return list, rows.Err()
}

// versions returns the recorded versions; none if there is no record at all.
func (r *record) versions(ctx context.Context, db *sql.DB, exists bool) (map[int64]bool, error) {
	applied := map[int64]bool{}
	if !exists {
		return applied, nil
	}
	list, err := r.ListMigrations(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("record of migrations %s: %w", r.Tablename(), err)
	}
	for _, m := range list {
		if m.Version > 0 {
			applied[m.Version] = true
		}
	}
	return applied, nil
}

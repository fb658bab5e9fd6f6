package postgres

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/store/storetest"
)

// suite runs the conformance suite in one database, each case in an outbox of its
// own beside the others'.
func suite(t *testing.T, in databaseOption, names func(n int64) outbox.Names) {
	d := newDatabase(t, in)
	storetest.Run(t, func(t *testing.T) storetest.Harness {
		o := option{in: d}
		if names != nil {
			o.names = names(d.schemas.Add(1))
		}
		return newSetup(t, o).harness(t)
	})
}

func TestSuite(t *testing.T) {
	t.Parallel()
	for _, version := range testenv.PGVersions() {
		t.Run(fmt.Sprintf("PostgreSQL %d", version), func(t *testing.T) {
			t.Parallel()
			suite(t, databaseOption{pg: testenv.PostgresVersion(t, version)}, nil)
		})
	}
}

// S37: through a pooler that gives each transaction another session, with fewer
// sessions than the stores have connections. The server's version before 1.21 has
// no prepared statements at all.
func TestSuite_S37_PgBouncer(t *testing.T) {
	t.Parallel()
	suite(t, databaseOption{pooler: &testenv.PgBouncerConfig{PoolMode: "transaction", PoolSize: 4}}, nil)
}

// S51: every name is qualified, so an empty search_path is as good as any; names
// are quoted, so any will do.
func TestSuite_S51_EmptySearchPathAndQuotedNames(t *testing.T) {
	t.Parallel()
	suite(t, databaseOption{roles: `ALTER ROLE %s SET search_path = ''`}, func(n int64) outbox.Names {
		return outbox.Names{Schema: fmt.Sprintf(`My "%d" Tenant's`, n), Prefix: `Out.Box's`, Table: `Evénts "now"`, Inbox: "In Box"}
	})
}

func TestSuite_TimeZones(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Asia/Kolkata", "America/New_York"} {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			suite(t, databaseOption{roles: `ALTER ROLE %[1]s SET timezone = '` + zone + `'; ALTER ROLE %[1]s SET datestyle = 'German'`}, nil)
		})
	}
}

// A role whose defaults would break a careless client.
func TestSuite_HostileDefaults(t *testing.T) {
	t.Parallel()
	suite(t, databaseOption{roles: `
		ALTER ROLE %[1]s SET default_transaction_isolation = 'serializable';
		ALTER ROLE %[1]s SET work_mem = '64kB';
		ALTER ROLE %[1]s SET bytea_output = 'escape';
		ALTER ROLE %[1]s SET intervalstyle = 'iso_8601';
		ALTER ROLE %[1]s SET jit_above_cost = 0;
		ALTER ROLE %[1]s SET plan_cache_mode = 'force_generic_plan';
		ALTER ROLE %[1]s SET synchronous_commit = 'off'`}, nil)
}

func TestSuite_Latin1(t *testing.T) {
	t.Parallel()
	suite(t, databaseOption{encoding: "LATIN1"}, nil)
}

package postgres

// queryServer asks what is connected to. Nothing of ours is touched, so it works
// in an empty database and on a standby.
const queryServer = `
SELECT json_build_object(
	'version', current_setting('server_version_num')::int,
	'name', current_setting('server_version'),
	'encoding', (SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
	'primary', NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off',
	'role', current_user,
	'database', current_database(),
	'fsync', current_setting('fsync'),
	'full_page_writes', current_setting('full_page_writes'),
	'synchronous_commit', current_setting('synchronous_commit', true),
	'schema', (SELECT has_schema_privilege(n.oid, 'USAGE') FROM pg_namespace n WHERE n.nspname = $1::text)
)::text`

// queryTables describes the tables of the given names. Only catalogs are read, so
// a table without rights on it is described too.
//
// $1 schema, $2 names.
const queryTables = `
SELECT c.relname::text, c.oid::bigint, c.relkind::text, c.relpersistence::text,
	CASE WHEN c.relkind IN ('r', 'p') THEN row_security_active(c.oid) ELSE false END,
	(SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, NULL), ',' ORDER BY a.attnum)
		FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped),
	CASE WHEN c.relkind = 'S' THEN
		CASE WHEN has_sequence_privilege(c.oid, 'UPDATE') THEN 'UPDATE' ELSE '' END
	ELSE concat_ws(',',
		CASE WHEN has_table_privilege(c.oid, 'SELECT') THEN 'SELECT' END,
		CASE WHEN has_table_privilege(c.oid, 'INSERT') THEN 'INSERT' END,
		CASE WHEN has_table_privilege(c.oid, 'UPDATE') THEN 'UPDATE' END,
		CASE WHEN has_table_privilege(c.oid, 'DELETE') THEN 'DELETE' END,
		CASE WHEN has_table_privilege(c.oid, 'TRUNCATE') THEN 'TRUNCATE' END) END,
	EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = $3::text AND t.tgenabled IN ('O', 'A')),
	coalesce((SELECT max(q.seqcache) FROM pg_sequence q JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = q.seqrelid
		WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = c.oid AND d.deptype IN ('a', 'i')), 1)::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relname = ANY($2::text[])`

// queryVersion is the version of our tables.
const queryVersion = `SELECT max(version)::int FROM {{version}}`

// Ways to tell this server and this history from others, the first that the
// role may run: the cluster's system identifier and the timeline that is being
// written, which changes with each promotion. (pg_control_checkpoint knows the new
// timeline only after the next checkpoint.) Where a provider forbids the control
// file, the database's oid and its role in recovery is all there is.
var identities = []string{
	`(SELECT system_identifier FROM pg_control_system())::text || '/' || CASE WHEN pg_is_in_recovery() THEN 'recovery'
		ELSE left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) END`,
	`(SELECT c.timeline_id || '/' || s.system_identifier FROM pg_control_checkpoint() c, pg_control_system() s)`,
	`(SELECT 'oid ' || oid || '/' || CASE WHEN pg_is_in_recovery() THEN 'recovery' ELSE 'primary' END
		FROM pg_database WHERE datname = current_database())`,
}

package sql

import (
	"slices"
	"strings"
)

// functionLevel returns the level of a call of a function. name must be in lower case. Unknown functions are Read: most
// of them are harmless, and the read-only mode of the engine stops the others.
func functionLevel(d Dialect, name string) Level {
	switch {
	case name == "nextval" || name == "setval":
		return Write
	case d == Postgres && postgresDenies(name), d == MySQL && mysqlDenies(name), d == SQLite && sqliteDenies(name):
		return Destructive
	}
	return Read
}

// postgresDenies reports whether a function of PostgreSQL accesses files, other servers, other sessions, locks or
// settings, or runs a query given as text. A read-only transaction does not stop such functions. A function pg_* is
// denied unless postgresReadOnly allows it.
func postgresDenies(name string) bool {
	if strings.HasPrefix(name, "pg_") {
		return !postgresReadOnly(name)
	}
	for _, prefix := range []string{"lo_", "dblink", "crosstab", "query_to_xml", "cursor_to_xml", "brin_", "binary_upgrade_", "http_"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return slices.Contains([]string{
		"set_config", "loread", "lowrite", "ts_stat", "ts_rewrite", "connectby", "xpath_table", "http", "gin_clean_pending_list",
		"schema_to_xml", "database_to_xml", "postgres_fdw_disconnect", "postgres_fdw_disconnect_all",
	}, name)
}

// postgresReadOnly reports whether a function pg_* only returns information.
func postgresReadOnly(name string) bool {
	if strings.HasPrefix(name, "pg_get_") || strings.HasPrefix(name, "pg_stat_get_") || strings.HasSuffix(name, "_is_visible") {
		return true
	}
	return slices.Contains([]string{
		"pg_typeof", "pg_collation_for", "pg_column_size", "pg_column_compression", "pg_size_pretty", "pg_size_bytes",
		"pg_relation_size", "pg_total_relation_size", "pg_table_size", "pg_indexes_size", "pg_database_size",
		"pg_tablespace_size", "pg_tablespace_location", "pg_tablespace_databases", "pg_relation_filenode",
		"pg_encoding_to_char", "pg_char_to_encoding", "pg_client_encoding", "pg_backend_pid", "pg_postmaster_start_time",
		"pg_conf_load_time", "pg_is_in_recovery", "pg_current_wal_lsn", "pg_last_wal_receive_lsn", "pg_last_wal_replay_lsn",
		"pg_last_xact_replay_timestamp", "pg_wal_lsn_diff", "pg_blocking_pids", "pg_safe_snapshot_blocking_pids",
		"pg_sleep", "pg_sleep_for", "pg_sleep_until", "pg_describe_object", "pg_identify_object", "pg_has_role",
		"pg_index_has_property", "pg_index_column_has_property", "pg_indexam_has_property", "pg_options_to_table",
		"pg_my_temp_schema", "pg_is_other_temp_schema", "pg_input_is_valid", "pg_partition_tree", "pg_partition_ancestors",
		"pg_partition_root", "pg_timezone_names", "pg_timezone_abbrevs", "pg_lock_status", "pg_stat_statements",
	}, name)
}

// mysqlDenies reports whether a function of MySQL reads files, runs programs, holds locks of the server or waits.
func mysqlDenies(name string) bool {
	return strings.HasPrefix(name, "sys_") || slices.Contains([]string{
		"load_file", "get_lock", "release_lock", "release_all_locks", "master_pos_wait", "source_pos_wait", "master_gtid_wait",
		"wait_for_executed_gtid_set", "wait_until_sql_thread_after_gtids",
	}, name)
}

// sqliteDenies reports whether a function of SQLite loads code, accesses files or changes settings.
func sqliteDenies(name string) bool {
	if pragma, ok := strings.CutPrefix(name, "pragma_"); ok {
		return !ReadPragma(pragma)
	}
	return slices.Contains([]string{"load_extension", "readfile", "writefile", "edit", "fsdir", "lsdir", "zipfile", "sqlar_uncompress", "fts3_tokenizer", "eval"}, name)
}

package config

import "strings"

// S3 configures a server that speaks the protocol of S3.
type S3 struct {
	// URL is the base URL of the server; "" means that of AWS. Region is the region of the buckets.
	URL, Region string
	// KeyID and Secret are the parts of an access key. Without them the variables of AWS count.
	KeyID, Secret Secret
}

// s3Keys are the settings of archives outside of the node.
func s3Keys() []Key {
	return []Key{
		{
			Name: "retain_archive_to", place: true, Node: true, Personal: true,
			Usage: "where tasks are archived before retention removes them: a directory that exists, or s3://BUCKET/PREFIX; empty for nowhere",
			field: func(c *Config) any { return &c.Retention.ArchiveTo },
		},
		{
			Name: "s3_url", Node: true, Personal: true, check: webURL, Usage: "URL of the server of S3, such as https://minio.example.com; empty is AWS_ENDPOINT_URL or that of AWS",
			field: func(c *Config) any { return &c.Tools.S3.URL },
		},
		{
			Name: "s3_region", Node: true, Personal: true, Usage: "region of the buckets; empty is AWS_REGION or us-east-1",
			field: func(c *Config) any { return &c.Tools.S3.Region },
		},
		{
			Name: "s3_key_id", Node: true, Personal: true, Usage: "where the id of the access key lies: env:NAME or file:PATH; empty is env:AWS_ACCESS_KEY_ID",
			field: func(c *Config) any { return &c.Tools.S3.KeyID },
		},
		{
			Name: "s3_secret", Node: true, Personal: true, Usage: "where the secret of the access key lies: env:NAME or file:PATH; empty is env:AWS_SECRET_ACCESS_KEY",
			field: func(c *Config) any { return &c.Tools.S3.Secret },
		},
	}
}

// isBucket reports whether a place is a bucket of S3, and not a directory.
func isBucket(place string) bool { return strings.HasPrefix(place, "s3://") }

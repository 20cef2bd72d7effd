// Package site tests the site of the documentation, which make site builds with Hugo.
package site

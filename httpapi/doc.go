// Package httpapi is the face of a node for programs that speak plain JSON over HTTP.
package httpapi

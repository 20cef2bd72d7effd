package realtime

import "net/url"

// Trusts reports whether a redirect may lead to a URL.
func (c *Client) Trusts(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && c.trusts(u)
}

package netguard_test

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
)

// private returns addresses that must not be reached, one of each kind.
func private() []string {
	return []string{
		"127.0.0.1", "127.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.254", "192.168.1.1", "169.254.169.254",
		"169.254.170.2", "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "198.18.0.1",
		"198.51.100.7", "203.0.113.9", "192.88.99.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "0.0.0.0",
		"168.63.129.16",
	}
}

func privateSix() []string {
	return []string{
		"::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "100::1", "2001:db8::1",
		"2001::1", "2001:10::1", "2001:20::1", "3fff::1", "5f00::1", "4000::1", "64:ff9b:1::1", "::ffff:0:7f00:1",
	}
}

// spellings are the ways to write an IPv4 address that one or another program understands.
func spellings(ip string) []string {
	a := netip.MustParseAddr(ip).As4()
	n := binary.BigEndian.Uint32(a[:])
	wide := func(zero rune, dot string) string {
		text := strings.Map(func(r rune) rune {
			if r == '.' {
				return r
			}
			return zero + r - '0'
		}, ip)
		return strings.ReplaceAll(text, ".", dot)
	}
	var percent strings.Builder
	for _, c := range []byte(ip) {
		fmt.Fprintf(&percent, "%%%02x", c)
	}
	return []string{
		ip, ip + ".", strconv.FormatUint(uint64(n), 10), strconv.FormatUint(uint64(n)+1<<32, 10), fmt.Sprintf("0x%x", n), fmt.Sprintf("0X%X", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("0x%x.0x%x.0x%x.0x%x", a[0], a[1], a[2], a[3]), fmt.Sprintf("0%o.0%o.0%o.0%o", a[0], a[1], a[2], a[3]),
		fmt.Sprintf("%d.0x%x.0%o.%d", a[0], a[1], a[2], a[3]), fmt.Sprintf("%03d.%03d.%03d.%03d", a[0], a[1], a[2], a[3]),
		fmt.Sprintf("%d.%d.%d", a[0], a[1], n&0xffff), fmt.Sprintf("%d.%d", a[0], n&0xffffff), fmt.Sprintf("0x%x.%d", a[0], n&0xffffff),
		fmt.Sprintf("%d.%d.%d.%d", int(a[0])+256, a[1], a[2], a[3]),
		wide('０', "."), wide('０', "．"), wide('𝟎', "。"), wide('𝟘', "｡"), percent.String(),
		fmt.Sprintf("[::ffff:%s]", ip), fmt.Sprintf("[::ffff:%x:%x]", n>>16, n&0xffff), fmt.Sprintf("[0:0:0:0:0:ffff:%s]", ip),
		fmt.Sprintf("[::%s]", ip), fmt.Sprintf("[2002:%x:%x::1]", n>>16, n&0xffff), fmt.Sprintf("[64:ff9b::%s]", ip),
		fmt.Sprintf("[64:ff9b:1::%s]", ip), fmt.Sprintf("[fe80::5efe:%s]", ip), fmt.Sprintf("[2001:0:%x:%x::]", n>>16, n&0xffff),
		fmt.Sprintf("[::ffff:0:%s]", ip), fmt.Sprintf("[::ffff:%s%%25lo]", ip),
	}
}

// hostile are URLs that lead to a private address, or to nowhere; port is one that answers there.
func hostile(port string) []string {
	var all []string
	for _, ip := range private() {
		for _, host := range spellings(ip) {
			all = append(all, "http://"+host+":"+port+"/")
		}
		all = append(all, tricks(ip, port)...)
	}
	for _, ip := range privateSix() {
		all = append(all, "http://["+ip+"]:"+port+"/", "http://["+strings.ToUpper(ip)+"]:"+port+"/", "https://["+ip+"]/",
			"http://["+ip+"%25lo]:"+port+"/", "http://[::"+strings.TrimPrefix(ip, "::")+"]:"+port+"/")
	}
	for _, name := range []string{"localhost", "LOCALHOST", "localhost.", "ＬＯＣＡＬＨＯＳＴ", "loc\u00adalhost", "ⓛocalhost", "localho%73t"} {
		all = append(all, "http://"+name+":"+port+"/")
	}
	return all
}

func tricks(ip, port string) []string {
	at := ip + ":" + port
	return []string{
		"http://example.com@" + at + "/", "http://example.com:80@" + at + "/", "http://" + at + "@example.com/",
		"http://" + at + "#@example.com/", "http://" + at + "?@example.com/", "http://" + at + "\\@example.com/",
		"http://example.com\\@" + at + "/", "http://example.com%40" + at + "/", "http://example.com#@" + at, "http:///" + at + "/",
		"http:/" + at + "/", "http:" + at + "/", "//" + at + "/", " http://" + at + "/", "http:// " + at + "/", "\thttp://" + at + "/",
		"http://\r\n" + at + "/", "http://" + ip + "\x00.example.com:" + port + "/", "http://" + ip + "%00.example.com:" + port + "/",
		"http://" + ip + "%2eexample.com:" + port + "/", "http://" + ip + ":" + port + "%2f@example.com/", "http://" + ip + ":0/",
		"http://" + ip + ":65536/", "http://" + ip + ":" + port + ":80/", "http://" + ip + ":/", "http://[" + ip + "]:" + port + "/",
		"HTTP://" + at + "/", "hTtPs://" + at + "/", "file://" + at + "/etc/passwd", "ftp://" + at + "/", "gopher://" + at + "/_GET",
		"dict://" + at + "/info", "ldap://" + at + "/", "jar:http://" + at + "!/", "view-source:http://" + at + "/", "data:,http://" + at,
		"javascript:location='http://" + at + "'", "unix://" + at + "/var/run/docker.sock", "http+unix://" + at + "/", "ws://" + at + "/",
	}
}

// leadsElsewhere reports whether the host of a URL is example.com by the rules for URLs.
func leadsElsewhere(raw string) bool { return strings.HasPrefix(raw, "http://example.com#@") }

// S0-114: nothing that leads inside is reached, neither by name nor by number, whatever the spelling.
func TestHostileURLs(t *testing.T) {
	t.Parallel()
	in := newInside(t)
	z := &zone{sets: map[string][][]string{}}
	c := netguard.New(netguard.Config{Resolver: z.resolver(t)})
	urls, reached := hostile(in.port), 0
	for _, raw := range urls {
		before := in.hits.Load()
		_, err := get(t, c, raw)
		require.Error(t, err, "%q", raw)
		if !leadsElsewhere(raw) {
			assert.Contains(t, []fault.Code{fault.InvalidFormat, fault.Forbidden}, fault.CodeOf(err), "%q: %v", raw, err)
		}
		if in.hits.Load() != before {
			reached++
			t.Errorf("%q was reached", raw)
		}
	}
	t.Logf("%d URLs, %d reached", len(urls), reached)
	assert.GreaterOrEqual(t, len(urls), 300)
	assert.Zero(t, in.hits.Load())

	// The server is there for whoever may reach it.
	_, err := get(t, netguard.New(netguard.Config{Hosts: []string{"127.0.0.1"}}), "http://127.0.0.1:"+in.port)
	require.NoError(t, err)
	assert.EqualValues(t, 1, in.hits.Load())
}

// The same, at the end of a redirect of a server that may be reached.
func TestHostileRedirects(t *testing.T) {
	t.Parallel()
	in := newInside(t)
	front := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Location"] = []string{r.URL.Query().Get("to")}
		w.WriteHeader(http.StatusFound)
	})
	z := &zone{sets: map[string][][]string{}}
	cfg := open()
	cfg.Resolver = z.resolver(t)
	c := netguard.New(cfg)
	u, err := c.Parse(front)
	require.NoError(t, err)
	urls := hostile(in.port)
	for _, raw := range urls {
		if strings.ContainsAny(raw, "\r\n\x00") {
			continue // no server can send it
		}
		q := u.Query()
		q.Set("to", raw)
		u.RawQuery = q.Encode()
		res, err := c.Do(t.Context(), netguard.Request{Method: http.MethodGet, URL: u, Limit: 1 << 10, Follow: func(to string) bool {
			return !strings.Contains(to, "127.0.0.2") // ends relative redirects
		}})
		if err == nil && !leadsElsewhere(raw) {
			assert.True(t, res.Refused != "" || res.Status != http.StatusFound, "%q", raw)
		}
	}
	t.Logf("%d redirects, %d reached", len(urls), in.hits.Load())
	assert.Zero(t, in.hits.Load())
}

// Names that resolve to private addresses: all of them, one of several, or only at the second lookup.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	in := newInside(t)
	var outside atomic.Int64
	serveAt(t, "127.0.0.2:"+in.port, func(w http.ResponseWriter, r *http.Request) {
		outside.Add(1)
		if r.URL.Path == "/again" {
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
		}
	})
	z := &zone{sets: map[string][][]string{
		"rebind.test":                  {{"127.0.0.2"}, {"127.0.0.1"}},
		"again.test":                   {{"127.0.0.2"}, {"127.0.0.1"}},
		"both.test":                    {{"127.0.0.1", "::1"}},
		"metadata.google.internal":     {{"169.254.169.254"}},
		"mapped.test":                  {{"::ffff:127.0.0.1"}},
		"127.0.0.1.nip.test":           {{"127.0.0.1"}},
		"xn--bcher-kva.example":        {{"127.0.0.1"}},
		"mixed.test":                   {{"127.0.0.1", "10.0.0.1", "::1", "fd00::1"}},
		"under_score.test":             {{"127.0.0.1"}},
		"a." + strings.Repeat("b", 63): {{"127.0.0.1"}},
	}}
	names := []string{"both.test", "metadata.google.internal", "mapped.test", "127.0.0.1.nip.test", "bücher.example", "BÜCHER.example", "mixed.test", "under_score.test", "a." + strings.Repeat("b", 63)}
	for i, ip := range append(private(), privateSix()...) {
		name := fmt.Sprintf("n%d.test", i)
		z.sets[name] = [][]string{{ip}}
		names = append(names, name, strings.ToUpper(name), name+".")
	}
	cfg := open()
	cfg.Resolver = z.resolver(t)
	c := netguard.New(cfg)
	for _, name := range names {
		_, err := get(t, c, "http://"+name+":"+in.port+"/")
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err), "%s: %v", name, err)
		assert.NotContains(t, fmt.Sprint(err), "169.254", "the message tells nothing about the inside")
	}
	t.Logf("%d names", len(names))

	_, err := get(t, c, "http://rebind.test:"+in.port+"/")
	require.NoError(t, err)
	for range 20 {
		_, err = get(t, c, "http://rebind.test:"+in.port+"/")
		assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	}
	_, err = get(t, c, "http://again.test:"+in.port+"/again")
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err), "the second hop looks the name up again")
	assert.EqualValues(t, 2, outside.Load())
	assert.Zero(t, in.hits.Load())
}

// Public addresses are allowed: addresses next to the bounds of every private range, names, ports.
func TestPublicURLs(t *testing.T) {
	t.Parallel()
	c := netguard.New(netguard.Config{})
	urls, refused := public(), 0
	for _, raw := range urls {
		if _, err := c.Parse(raw); err != nil {
			refused++
			t.Errorf("%s: %v", raw, err)
		}
	}
	t.Logf("%d URLs, %d refused", len(urls), refused)
	assert.GreaterOrEqual(t, len(urls), 100)
}

func public() []string {
	var all []string
	for _, ip := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"140.82.121.4", "151.101.1.69", "168.63.129.15", "168.63.129.17", "169.253.255.255", "169.255.0.0", "172.15.255.255",
		"172.32.0.0", "185.199.108.153", "191.255.255.255", "192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0",
		"193.0.0.1", "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0", "223.255.255.255",
	} {
		all = append(all, "http://"+ip, "https://"+ip+"/a?b=c#d", "http://[::ffff:"+ip+"]/", "https://"+ip+":8443/")
	}
	for _, ip := range []string{"2606:4700:4700::1111", "2001:4860:4860::8888", "2001:200::1", "2a00:1450::1", "2400:cb00::1", "2003::1", "2620:fe::fe"} {
		all = append(all, "http://["+ip+"]/", "https://["+strings.ToUpper(ip)+"]:8443/")
	}
	for _, name := range []string{
		"example.com", "EXAMPLE.COM", "example.com.", "a-b.example", "xn--bcher-kva.example", "bücher.example", "例え.テスト", "1.2.3.example", "3com.com",
		"127.0.0.1.example.com", "0x7f.example", "deadbeef.example", "api.v2.example", "under_score.example", "a", "localhost.example", "10.example",
		"münchen.de", "президент.рф", "s3.eu-west-1.amazonaws.com",
	} {
		all = append(all, "https://"+name+"/x/y?z=%2e%2e", "http://"+name+":8080")
	}
	return all
}

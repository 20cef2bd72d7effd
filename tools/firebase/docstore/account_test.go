package docstore_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools/firebase"
	"github.com/orch-dev/orch/tools/firebase/docstore"
	"github.com/orch-dev/orch/tools/firebase/refusal"
)

// google is a Firestore that accepts only a valid token.
type google struct {
	firestorepb.UnimplementedFirestoreServer
	t *testing.T
}

func (g google) Commit(ctx context.Context, r *firestorepb.CommitRequest) (*firestorepb.CommitResponse, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
	assert.Equal(g.t, []string{"projects/p/databases/(default)"}, sent["google-cloud-resource-prefix"])
	assert.Equal(g.t, "projects/p/databases/(default)/documents/w/a", r.GetWrites()[0].GetDelete())
	if got := sent["authorization"]; len(got) != 1 || got[0] != "Bearer t1" {
		return nil, status.Error(codes.Unauthenticated, "who is that")
	}
	return &firestorepb.CommitResponse{CommitTime: timestamppb.New(time.Unix(7, 0))}, nil
}

// serveTLS starts a server and returns its address, and a pool with the CA of its certificate.
func serveTLS(t *testing.T) (address string, roots *x509.CertPool) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	roots = x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: certified.TLS.Certificates, MinVersion: tls.VersionTLS12})))
	firestorepb.RegisterFirestoreServer(s, google{t: t})
	served := make(chan struct{})
	go func() {
		defer close(served)
		assert.NoError(t, s.Serve(l))
	}()
	t.Cleanup(func() { s.Stop(); <-served })
	return l.Addr().String(), roots
}

// key returns the key of a service account whose tokens come from a server.
func key(t *testing.T, tokens string) string {
	t.Helper()
	secret, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(secret)})
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "private_key_id": "k", "private_key": string(text),
		"client_email": "a@p.iam.gserviceaccount.com", "token_uri": tokens,
	})
	require.NoError(t, err)
	return string(file)
}

// A service account sends a token for its key, only over TLS, and the project is that of the key.
func TestServiceAccount(t *testing.T) {
	t.Parallel()
	address, roots := serveTLS(t)
	for code, reason := range map[int]string{
		http.StatusOK: "", http.StatusBadRequest: refusal.PermissionDenied, http.StatusBadGateway: refusal.ConnectionError,
	} {
		tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, err := io.WriteString(w, `{"access_token":"t1","token_type":"Bearer","expires_in":3600}`)
			assert.NoError(t, err)
		}))
		t.Cleanup(tokens.Close)
		c, err := docstore.OpenAt(docstore.Config{Net: netguard.Config{RootCAs: roots}, Credentials: key(t, tokens.URL)}, address)
		require.NoError(t, err)
		written, err := c.Write(t.Context(), "w/a", firebase.Write{Operation: firebase.Delete})
		if reason == "" {
			require.NoError(t, err)
			assert.Equal(t, int64(7), written.At.Unix())
		} else {
			refused(t, err, reason)
		}
		require.NoError(t, c.Close())
	}
}

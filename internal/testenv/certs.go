//go:build unix

package testenv

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"time"
)

// authority signs certificates for one server. Its files lie in the server's
// folder: ca.pem, server.pem, server-key.pem, client.pem, client-key.pem.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func (a *authority) file(name string) string {
	if a == nil {
		return ""
	}
	return filepath.Join(a.dir, name)
}

func newAuthority(dir string) (*authority, error) {
	a := &authority{dir: dir, cert: template(1, "test authority")}
	a.cert.IsCA, a.cert.BasicConstraintsValid = true, true
	a.cert.KeyUsage = x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a.key = key
	if err := a.sign(a.cert, a.key, "ca"); err != nil {
		return nil, err
	}
	for i, name := range []string{"server", "client"} {
		cert := template(int64(i+2), name)
		cert.IPAddresses, cert.DNSNames = []net.IP{net.IPv4(127, 0, 0, 1)}, []string{"localhost"}
		cert.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		if err := a.sign(cert, key, name); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func template(serial int64, name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

func (a *authority) sign(cert *x509.Certificate, key *ecdsa.PrivateKey, name string) error {
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(a.file(name+".pem"), encode("CERTIFICATE", der), 0o644); err != nil {
		return err
	}
	return writeFile(a.file(name+"-key.pem"), encode("PRIVATE KEY", private), 0o600)
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

package agent

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"strings"
)

// TokenEnv is the environment variable that holds the token.
const TokenEnv = "PERF_TOKEN"

const minToken, maxToken = 16, 1024

// Token is the secret that both ends of a control connection know.
type Token struct{ secret []byte }

// ReadToken returns the token of a file, or if none is named, that of the environment.
func ReadToken(file string) (Token, error) {
	text, from := os.Getenv(TokenEnv), TokenEnv
	if file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return Token{}, fmt.Errorf("token: %w", err)
		}
		text, from = string(b), file
	}
	if text == "" {
		return Token{}, errors.New("no token; give all ends the same --token-file, or the same " +
			TokenEnv + " in the environment (openssl rand -hex 16 makes one)")
	}
	text = strings.TrimSpace(text)
	if len(text) < minToken || len(text) > maxToken {
		return Token{}, fmt.Errorf("token of %d bytes in %s; allowed: %d to %d", len(text), from, minToken, maxToken)
	}
	return Token{[]byte(text)}, nil
}

// NewToken makes a token, and returns its secret also as text.
func NewToken() (Token, string) {
	text := rand.Text()
	return Token{[]byte(text)}, text
}

// mac returns the HMAC of parts. No part can be moved into its neighbour, because all but the last have fixed lengths.
func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

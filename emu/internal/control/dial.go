package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
)

// answerTime bounds how long an answer may take.
const answerTime = 30 * time.Second

// Do sends one request to the emulator at address and returns its answer as JSON.
func Do(address string, words ...string) (json.RawMessage, error) {
	if address == "" {
		return nil, fmt.Errorf("no emulator here: %s is not set; run this below emu, or say its address", Env)
	}
	c, err := net.Dial("unix", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answerTime))
	if _, err := c.Write([]byte(strings.Join(words, " ") + "\n")); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the emulator at %s gave no answer: %w", address, err)
	}
	var a struct {
		OK    json.RawMessage
		Error string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return nil, fmt.Errorf("the emulator at %s answered %q: %w", address, line, err)
	}
	if a.Error != "" {
		return nil, errors.New(Visible(a.Error))
	}
	return json.RawMessage(Visible(string(a.OK))), nil
}

// Visible escapes, as JSON does, what JSON itself lets pass and a terminal would take for a command: a program's name
// may have anything in it.
func Visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

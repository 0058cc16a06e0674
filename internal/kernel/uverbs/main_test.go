package uverbs

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

func TestMain(m *testing.M) { emulated.Main(m) }

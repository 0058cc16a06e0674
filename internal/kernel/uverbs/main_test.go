package uverbs

import (
	"fmt"
	"os"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil/emulated"
)

// inheritedEnv makes a test binary a process that got a device file as descriptor 3. It prints whether it may write.
const inheritedEnv = "PUREVERBS_TEST_INHERITED"

func TestMain(m *testing.M) {
	if os.Getenv(inheritedEnv) != "" {
		fmt.Println("refused:", Refused(3))
		return
	}
	emulated.Main(m)
}

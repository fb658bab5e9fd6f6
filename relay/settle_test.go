package relay

import "testing"

func TestLastMarks_OneMarkOfEachRow(t *testing.T) {
	t.Parallel()
	mark := func(id int64, text string) Mark { return Mark{Ref: Ref{ID: IntID(id)}, Error: text} }
	got := lastMarks([]Mark{mark(1, "note"), mark(2, "other"), mark(1, "taken back")})
	if len(got) != 2 || got[0].Error != "taken back" || got[1].Error != "other" {
		t.Errorf("%+v", got)
	}
}

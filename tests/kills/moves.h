/* Counts the movements of data by a rank's daemon, and can end the process in the middle of one. */
#ifndef DF_TESTS_KILLS_MOVES_H
#define DF_TESTS_KILLS_MOVES_H

/* At the movement of that number (from 1, counted from now on), when a part of it is done, calls
 * `how`. 0: never. */
void kills_arm_move(long position, void (*how)(void));

#endif

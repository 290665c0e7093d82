/* A small role-playing game for the Game Boy Color, own work. Its work RAM lies at the addresses of Pokemon Crystal's symbols
   (pret/pokecrystal), so that one reader of memory serves both. The rules are those of components/hybrid/cartridge_rules.py.

   A button acts once, when it goes down. Chance comes from the 16-bit generator at FFE1, which moves only when it is drawn
   from: whoever writes a seed there decides, with the buttons, all that happens. */

typedef unsigned char u8;
typedef unsigned int u16;

#define BYTE(address) (*(volatile u8 *)(address))

#define JOYPAD BYTE(0xFF00)
#define INTERRUPT_FLAGS BYTE(0xFF0F)
#define INTERRUPT_ENABLE BYTE(0xFFFF)
#define LCD_CONTROL BYTE(0xFF40)
#define LCD_ON 0x91
#define PALETTE BYTE(0xFF47)
#define COLOUR_INDEX BYTE(0xFF68)
#define COLOUR BYTE(0xFF69)
#define TILES 0x8000
#define SCREEN 0x9800

#define CHANCE 0xFFE1           /* hRandomAdd, hRandomSub */
#define WINDOWS BYTE(0xCF78)    /* wWindowStackSize */
#define ENEMY_SPECIES BYTE(0xD206)
#define ENEMY_LEVEL BYTE(0xD213)
#define ENEMY_HP 0xD216
#define ENEMY_MAX_HP 0xD218
#define BATTLE_MODE BYTE(0xD22D) /* 0 none, 1 wild, 2 trainer */
#define FACING BYTE(0xD4DE)      /* 0 down, 4 up, 8 left, 12 right */
#define SCRIPT BYTE(0xD438)       /* not 0 while a text is shown */
#define MONEY 0xD84E             /* three bytes, as all numbers with the highest first */
#define JOHTO_BADGES BYTE(0xD857)
#define NUM_ITEMS BYTE(0xD892)
#define ITEMS 0xD893             /* pairs of an item and its number, then FF */
#define EVENTS BYTE(0xDA72)
#define STEPS BYTE(0xDC73)
#define MAP_GROUP BYTE(0xDCB5)
#define MAP_NUMBER BYTE(0xDCB6)
#define Y BYTE(0xDCB7)
#define X BYTE(0xDCB8)
#define PARTY_COUNT BYTE(0xDCD7)
#define PARTY_SPECIES 0xDCD8
#define SPECIES BYTE(0xDCDF)
#define EXPERIENCE 0xDCE7
#define LEVEL BYTE(0xDCFE)
#define STATUS BYTE(0xDCFF)
#define HP 0xDD01
#define MAX_HP 0xDD03

enum { WILD = 1, TRAINER = 2 };
enum { TOWN = 4, ROUTE = 3, HILL = 2 };
enum { GOT_STARTER = 1, GOT_POTION = 2, WON_ROUTE = 4, WON_HILL = 8 };
#define POTION 0x12
enum { DOWN = 0, UP = 4, LEFT = 8, RIGHT = 12 };
enum { KEY_A = 0x01, KEY_B = 0x02, KEY_START = 0x08, KEY_RIGHT = 0x10, KEY_LEFT = 0x20, KEY_UP = 0x40, KEY_DOWN = 0x80 };
enum { TILE_FLOOR, TILE_WALL, TILE_GRASS, TILE_TABLE, TILE_HEAL, TILE_GYM, TILE_EXIT, TILE_PERSON, TILE_PLAYER, TILE_ENEMY_BAR,
       TILE_OWN_BAR, TILE_MENU, NUM_PICTURES, TILE_BLANK = ' ', TILE_LETTERS = 'A' };

#define WIDTH 10
#define HEIGHT 9
/* # wall, . floor, comma grass, L the table with the starter, H healing, P a person, G and K the gyms; E, W, S, N the exits.
   No way leads to the second gym but through the grass of the hill. */
static const char town[] =
    "##########"
    "#L.......#"
    "#........#"
    "#..##....#"
    "#..##....E"
    "#........#"
    "#....H...#"
    "#.......P#"
    "##########";
static const char route[] =
    "##########"
    "#....,,,,#"
    "#....,,,,#"
    "#....,,,,#"
    "W.......G#"
    "#....,,,,#"
    "#....,,,,#"
    "#....,,,,#"
    "##S#######";
static const char hill[] =
    "##N#######"
    "#........#"
    "#,,,,,,,,#"
    "#,,,,,,,,#"
    "#,,,,,,,,#"
    "#,,,,,,,,#"
    "#,,,,,,,,#"
    "#........#"
    "########K#";

static u8 held;
static const char *text; /* of the box at the bottom, while SCRIPT is on */

static u16 word(u16 address) { return ((u16)BYTE(address) << 8) | BYTE(address + 1); }

static void set_word(u16 address, u16 value) {
    BYTE(address) = value >> 8;
    BYTE(address + 1) = value;
}

/* Xorshift with a period of 65535 (shifts 7, 9, 8); 0 would stay 0, and counts as 1. */
static u8 draw(void) {
    u16 state = word(CHANCE);
    if (!state) state = 1;
    state ^= state << 7;
    state ^= state >> 9;
    state ^= state << 8;
    set_word(CHANCE, state);
    return state >> 8;
}

static char cell(u8 x, u8 y) {
    const char *map = MAP_NUMBER == TOWN ? town : MAP_NUMBER == ROUTE ? route : hill;
    return map[(u8)(y * WIDTH + x)];
}

/* ---- the game ---- */

static void say(const char *what) {
    text = what;
    SCRIPT = 1;
}

static void heal(void) {
    set_word(HP, word(MAX_HP));
    STATUS = 0;
}

static void earn(u16 money) {
    u16 before = word(MONEY + 1), after = before + money;
    set_word(MONEY + 1, after);
    if (after < before) BYTE(MONEY)++;
}

static void lose(u16 address, u8 damage) {
    u16 left = word(address);
    set_word(address, left > damage ? left - damage : 0);
}

static void meet(u8 mode, u8 level) {
    BATTLE_MODE = mode;
    ENEMY_SPECIES = mode == TRAINER ? 16 : 161;
    ENEMY_LEVEL = level;
    set_word(ENEMY_MAX_HP, 8 + level * 2);
    set_word(ENEMY_HP, 8 + level * 2);
}

static void gain(u16 experience) {
    u16 total = word(EXPERIENCE + 1) + experience;
    set_word(EXPERIENCE + 1, total);
    while (LEVEL < 100 && total >= (u16)LEVEL * LEVEL) {
        LEVEL++;
        set_word(MAX_HP, word(MAX_HP) + 3);
        set_word(HP, word(HP) + 3);
    }
}

static void win(void) {
    gain((u16)ENEMY_LEVEL * 8);
    earn((u16)ENEMY_LEVEL * (BATTLE_MODE == TRAINER ? 60 : 10));
    if (BATTLE_MODE == TRAINER) {
        JOHTO_BADGES |= MAP_NUMBER == HILL ? 2 : 1;
        EVENTS |= MAP_NUMBER == HILL ? WON_HILL : WON_ROUTE;
        say("YOU WON A BADGE");
    }
    BATTLE_MODE = 0;
}

static void black_out(void) {
    set_word(MONEY + 1, word(MONEY + 1) >> 1);
    MAP_NUMBER = TOWN;
    X = 5;
    Y = 5;
    BATTLE_MODE = 0;
    heal();
    say("ALL WENT DARK");
}

static void fight(u8 pressed) {
    if (pressed & KEY_A) {
        lose(ENEMY_HP, 4 + (LEVEL >> 1) + (draw() & 3));
        if (!word(ENEMY_HP)) {
            win();
            return;
        }
    } else if (pressed & KEY_B) {
        if (BATTLE_MODE == WILD && (draw() & 1)) {
            BATTLE_MODE = 0;
            return;
        }
    } else {
        return;
    }
    lose(HP, 1 + (ENEMY_LEVEL >> 1) + (draw() & 1));
    if (!word(HP)) black_out();
}

static void take_starter(void) {
    PARTY_COUNT = 1;
    BYTE(PARTY_SPECIES) = 155;
    BYTE(PARTY_SPECIES + 1) = 0xFF;
    SPECIES = 155;
    LEVEL = 5;
    set_word(EXPERIENCE + 1, 16);
    set_word(MAX_HP, 20);
    heal();
    EVENTS |= GOT_STARTER;
    say("IT LIKES YOU");
}

static void talk_to_person(void) {
    if (!PARTY_COUNT) {
        say("SEE THE TABLE");
    } else if (EVENTS & GOT_POTION) {
        say("TRAIN ON THE HILL");
    } else {
        EVENTS |= GOT_POTION;
        NUM_ITEMS = 1;
        BYTE(ITEMS) = POTION;
        BYTE(ITEMS + 1) = 1;
        BYTE(ITEMS + 2) = 0xFF;
        say("TAKE THIS POTION");
    }
}

static void drink_potion(void) {
    u16 more = word(HP) + 20;
    if (!NUM_ITEMS || word(HP) == word(MAX_HP)) return;
    set_word(HP, more < word(MAX_HP) ? more : word(MAX_HP));
    NUM_ITEMS = 0;
    BYTE(ITEMS) = 0xFF;
}

static void touch(char target) {
    if (target == 'L' && !PARTY_COUNT) take_starter();
    if (target == 'H' && PARTY_COUNT) heal();
    if (target == 'P') talk_to_person();
    if (target == 'G' && PARTY_COUNT && !(JOHTO_BADGES & 1)) meet(TRAINER, 9);
    if (target == 'K' && JOHTO_BADGES == 1) meet(TRAINER, 20);
}

static void enter(u8 map, u8 x, u8 y) {
    MAP_NUMBER = map;
    X = x;
    Y = y;
}

static void step_onto(char target, u8 x, u8 y) {
    if (target == 'E' && PARTY_COUNT) enter(ROUTE, 1, 4);
    if (target == 'W') enter(TOWN, 8, 4);
    if (target == 'S') enter(HILL, 2, 1);
    if (target == 'N') enter(ROUTE, 2, 7);
    if (target != '.' && target != ',') return;
    X = x;
    Y = y;
    STEPS++;
    if (target == ',' && !(draw() & 7)) meet(WILD, (MAP_NUMBER == HILL ? 5 : 2) + (draw() & 3));
}

static void walk(u8 pressed) {
    u8 x = X, y = Y;
    if (SCRIPT) {
        if (pressed & (KEY_A | KEY_B)) SCRIPT = 0;
        return;
    }
    if (pressed & KEY_START) {
        WINDOWS = !WINDOWS;
        return;
    }
    if (WINDOWS) {
        if (pressed & KEY_B) WINDOWS = 0;
        else if (pressed & KEY_A) drink_potion();
        return;
    }
    if (pressed & KEY_RIGHT) FACING = RIGHT;
    else if (pressed & KEY_LEFT) FACING = LEFT;
    else if (pressed & KEY_UP) FACING = UP;
    else if (pressed & KEY_DOWN) FACING = DOWN;
    else if (!(pressed & KEY_A)) return;
    if (FACING == RIGHT) x++;
    if (FACING == LEFT) x--;
    if (FACING == UP) y--;
    if (FACING == DOWN) y++;
    if (pressed & 0xF0) step_onto(cell(x, y), x, y);
    else touch(cell(x, y));
}

/* ---- the screen: cells of two by two tiles ---- */

static u8 tile(char kind) {
    switch (kind) {
    case '#': return TILE_WALL;
    case ',': return TILE_GRASS;
    case 'L': return TILE_TABLE;
    case 'H': return TILE_HEAL;
    case 'P': return TILE_PERSON;
    case 'G': case 'K': return TILE_GYM;
    case 'E': case 'W': case 'S': case 'N': return TILE_EXIT;
    }
    return TILE_FLOOR;
}

static void put(u8 x, u8 y, u8 number) {
    volatile u8 *corner = (volatile u8 *)(SCREEN + (u16)y * 64 + x * 2);
    corner[0] = corner[1] = corner[32] = corner[33] = number;
}

static void show_bars(void) {
    u8 x, y, enemy = word(ENEMY_HP) / 4, own = word(HP) / 4;
    for (x = 0; x < WIDTH; x++) {
        for (y = 4; y < 6; y++) put(x, y, x < enemy ? TILE_ENEMY_BAR : TILE_BLANK);
        for (y = 6; y < HEIGHT; y++) put(x, y, x < own ? TILE_OWN_BAR : TILE_BLANK);
    }
}

static void show_battle(void) {
    u8 x, y;
    for (y = 0; y < 4; y++)
        for (x = 0; x < WIDTH; x++) put(x, y, TILE_BLANK);
    show_bars();
}

static void show_text(void) {
    u8 x, y;
    volatile u8 *line = (volatile u8 *)(SCREEN + 15 * 32 + 1);
    const char *letter = text;
    for (y = HEIGHT - 2; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++) put(x, y, TILE_BLANK);
    while (*letter) *line++ = *letter++;
}

static void show_map(void) {
    u8 x, y;
    for (y = 0; y < HEIGHT; y++)
        for (x = 0; x < WIDTH; x++) put(x, y, tile(cell(x, y)));
    put(X, Y, TILE_PLAYER);
    if (WINDOWS)
        for (y = 0; y < HEIGHT; y++) put(WIDTH - 1, y, TILE_MENU);
    if (SCRIPT) show_text();
}

/* What is on the screen: most steps change two cells, which fit into a vertical blank. All else is drawn with the screen off. */
static u8 shown_map, shown_mode, shown_windows, shown_script, shown_x, shown_y;

static void show(void) {
    if (MAP_NUMBER != shown_map || BATTLE_MODE != shown_mode || WINDOWS != shown_windows || SCRIPT != shown_script) {
        LCD_CONTROL = 0;
        if (BATTLE_MODE) show_battle();
        else show_map();
        LCD_CONTROL = LCD_ON;
    } else if (BATTLE_MODE) {
        LCD_CONTROL = 0;
        show_bars();
        LCD_CONTROL = LCD_ON;
    } else if (X != shown_x || Y != shown_y) {
        put(shown_x, shown_y, tile(cell(shown_x, shown_y)));
        put(X, Y, TILE_PLAYER);
    }
    shown_map = MAP_NUMBER;
    shown_mode = BATTLE_MODE;
    shown_windows = WINDOWS;
    shown_script = SCRIPT;
    shown_x = X;
    shown_y = Y;
}

/* Pictures of eight lines, and the colour that each is drawn with on white. */
static const u8 pictures[NUM_PICTURES][8] = {
    {0x00, 0x00, 0x00, 0x10, 0x00, 0x00, 0x00, 0x00}, {0xFF, 0x81, 0x81, 0xFF, 0xFF, 0x18, 0x18, 0xFF},
    {0x00, 0x24, 0x24, 0x5A, 0x5A, 0x7E, 0x7E, 0x3C}, {0xFF, 0xFF, 0x66, 0x66, 0x66, 0x66, 0x00, 0x00},
    {0x18, 0x18, 0x7E, 0x7E, 0x7E, 0x18, 0x18, 0x00}, {0xFF, 0x81, 0xBD, 0xA5, 0xA5, 0xBD, 0x81, 0xFF},
    {0x18, 0x3C, 0x7E, 0xFF, 0x18, 0x18, 0x18, 0x18}, {0x3C, 0x3C, 0x18, 0x7E, 0x18, 0x18, 0x24, 0x24},
    {0x3C, 0x3C, 0x18, 0x7E, 0x5A, 0x18, 0x24, 0x66}, {0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00},
    {0x00, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00}, {0xFF, 0x81, 0xBD, 0x81, 0xBD, 0x81, 0xBD, 0xFF},
};
enum { WHITE, GREEN, BROWN, BLACK };
static const u8 picture_colours[NUM_PICTURES] = {
    GREEN, BROWN, GREEN, BROWN, BLACK, BROWN, BLACK, BROWN, BLACK, BROWN, GREEN, BLACK,
};
static const u16 colours[4] = {0x7FFF, 0x1AE4, 0x1551, 0x0000};
/* A to Z in five lines of three dots: an octal digit for each line. */
static const u16 letters[26] = {
    025755, 065656, 034443, 065556, 074647, 074644, 034553, 055755, 072227, 011152, 055655, 044447, 057755,
    065555, 025552, 065644, 025563, 065655, 034216, 072222, 055557, 055552, 055775, 055255, 055222, 071247,
};
static const u8 wide[8] = {0x00, 0x0C, 0x30, 0x3C, 0xC0, 0xCC, 0xF0, 0xFC};

static void make_line(u16 address, u8 dots, u8 colour) {
    BYTE(address) = colour & 1 ? dots : 0;
    BYTE(address + 1) = colour & 2 ? dots : 0;
}

static void make_tiles(void) {
    u8 number, line;
    for (number = 0; number < NUM_PICTURES; number++)
        for (line = 0; line < 8; line++)
            make_line(TILES + number * 16 + line * 2, pictures[number][line], picture_colours[number]);
    for (line = 0; line < 8; line++) make_line(TILES + TILE_BLANK * 16 + line * 2, 0, WHITE);
    for (number = 0; number < 26; number++)
        for (line = 0; line < 8; line++)
            make_line(TILES + (u16)(TILE_LETTERS + number) * 16 + line * 2,
                      line < 5 ? wide[letters[number] >> (12 - 3 * line) & 7] : 0, BLACK);
}

static void prepare_screen(void) {
    u16 i;
    LCD_CONTROL = 0;
    make_tiles();
    for (i = 0; i < 1024; i++) BYTE(SCREEN + i) = TILE_BLANK;
    PALETTE = 0xE4;
    COLOUR_INDEX = 0x80;
    for (i = 0; i < 4; i++) {
        COLOUR = colours[i];
        COLOUR = colours[i] >> 8;
    }
}

/* ---- the loop ---- */

static void wait_for_vblank(void) {
    INTERRUPT_FLAGS = 0;
    __asm__("halt\n nop");
}

static u8 read_keys(void) {
    u8 directions, buttons;
    JOYPAD = 0x20;
    directions = JOYPAD;
    directions = JOYPAD;
    JOYPAD = 0x10;
    buttons = JOYPAD;
    buttons = JOYPAD;
    JOYPAD = 0x30;
    return (~directions & 15) << 4 | (~buttons & 15);
}

static void start(void) {
    u16 i;
    for (i = 0xD000; i < 0xDEC0; i++) BYTE(i) = 0;
    held = 0;
    shown_map = 0;
    WINDOWS = 0;
    set_word(CHANCE, 1);
    MAP_GROUP = 24;
    enter(TOWN, 4, 5);
    set_word(MONEY + 1, 3000);
    BYTE(ITEMS) = 0xFF;
}

void main(void) {
    u8 keys, pressed = 0xFF; /* the first blank shows the start */
    __asm__("di");
    INTERRUPT_ENABLE = 1; /* the vertical blank ends a halt; interrupts themselves stay off */
    prepare_screen();
    start();
    LCD_CONTROL = LCD_ON; /* without it no vertical blank comes */
    for (;;) {
        wait_for_vblank();
        if (pressed) show();
        keys = read_keys();
        pressed = keys & ~held;
        held = keys;
        if (!pressed) continue;
        if (BATTLE_MODE) fight(pressed);
        else walk(pressed);
    }
}
